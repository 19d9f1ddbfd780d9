package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

// sandbox is a world with a dead leader, for people.
func sandbox(args []string) error {
	flags := flag.NewFlagSet("sandbox", flag.ContinueOnError)
	options := worldFlags(flags)
	options.install.clusters = 5
	if err := parse(flags, args); err != nil {
		return err
	}
	if err := options.check(); err != nil {
		return err
	}
	ctx, cancel := untilSignal()
	defer cancel()
	fmt.Fprintln(os.Stderr, "Starting a Kubernetes API server and a Rancher with", options.install.replicas, "replicas …")
	w, err := startWorld(ctx, options)
	if err != nil {
		return unlessCancelled(ctx, err)
	}
	defer func() {
		cancel()
		w.stop()
	}()
	describe(w)
	select {
	case <-ctx.Done():
		fmt.Fprintln(os.Stderr, "\nEverything stopped and removed.")
		return nil
	case err := <-w.failed:
		return err
	}
}

// describe tells a person what there is and what to do with it.
func describe(w *world) {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	lease := "kubectl get lease -n kube-system " + electionName
	fmt.Printf(`
A real Kubernetes %s with Rancher %s (%d replicas, %d downstream clusters) stands.
`, w.Server, w.options.install.version, w.options.install.replicas, w.options.install.clusters)
	if w.options.holder == holderDead {
		fmt.Printf(`Its leader died %.0f minutes ago and left a lease of %d s; the other replicas wait.
`, deadSince.Minutes(), w.options.leaseDuration)
	}
	fmt.Printf(`
In another terminal:

  export KUBECONFIG=%s
  export PATH=%s:$PATH

  kubectl rancher-lease                 # what is wrong?
  kubectl rancher-lease fix             # repair it
  %s -w
  kubectl get clusters.management.cattle.io -o 'custom-columns=NAME:.metadata.name,CONNECTED:.status.conditions[?(@.type=="Connected")].status'
  kubectl logs -n %s deploy/%s

Ctrl-C here ends and removes everything.
`, w.Kubeconfig, filepath.Dir(self), lease, w.options.install.namespace, w.options.install.fullName())
}
