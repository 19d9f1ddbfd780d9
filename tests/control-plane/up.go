package main

import (
	"context"
	"encoding/json"
	"flag"
	"io"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/apimachinery/pkg/types"
)

// up starts a control plane, says where it is, and stays until told to go.
func up(args []string) error {
	flags := flag.NewFlagSet("up", flag.ContinueOnError)
	options := planeFlags(flags)
	untilStdinCloses := flags.Bool("until-stdin-closes", false, "also end when stdin ends")
	if err := parse(flags, args); err != nil {
		return err
	}
	ctx, cancel := untilSignal()
	defer cancel()
	if *untilStdinCloses {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			cancel()
		}()
	}
	p, err := startPlane(ctx, *options)
	if err != nil {
		return unlessCancelled(ctx, err)
	}
	defer p.stop()
	if err := printJSON(p.planeInfo); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-p.failed:
		return err
	}
}

func planeFlags(flags *flag.FlagSet) *planeOptions {
	options := &planeOptions{rancher: types.NamespacedName{Namespace: "cattle-system", Name: "rancher"}}
	flags.StringVar(&options.dir, "dir", "", "directory for all files, created, removed at the end (default: a new one under TMPDIR)")
	flags.StringVar(&options.name, "name", "management", "name of the kubeconfig's context")
	flags.BoolVar(&options.keep, "keep", false, "leave the directory behind")
	return options
}

// untilSignal returns a context that ends with SIGINT, SIGTERM or SIGHUP.
func untilSignal() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
}

// unlessCancelled drops the error of a start that was called off.
func unlessCancelled(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// printJSON prints one line for a machine to read.
func printJSON(value any) error {
	return json.NewEncoder(os.Stdout).Encode(value)
}
