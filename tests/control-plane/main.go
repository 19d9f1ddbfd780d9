// Command control-plane is the Kubernetes and the Rancher that the tests and
// the demo of kubectl-rancher run against: the real etcd, kube-apiserver and
// kube-controller-manager, and Rancher's real leader election, in one binary.
//
// The first argument names the part to play. The people's parts are up, world,
// sandbox and rancher-replica; etcd, kube-apiserver and kube-controller-manager
// are the upstream programs and take the upstream flags.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // as in upstream's own main packages
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

const usage = `Usage: control-plane PART [flags]

  up               etcd, kube-apiserver and kube-controller-manager; prints one JSON line when ready
  world            the same, with nodes, a Rancher installation and its replicas; takes commands on stdin
  sandbox          a world whose leader is dead, for trying the plugins by hand
  rancher-replica  one contender of Rancher's leader election

  etcd, kube-apiserver, kube-controller-manager   the upstream programs

control-plane PART --help lists a part's flags.
`

func main() {
	dieWithParent()
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	part, args := os.Args[1], os.Args[2:]
	switch part {
	case "up":
		exit(up(args))
	case "world":
		exit(worldCommand(args))
	case "sandbox":
		exit(sandbox(args))
	case "rancher-replica":
		exit(rancherReplica(args))
	case "etcd":
		etcdmain.Main(os.Args[1:])
	case "kube-apiserver":
		runUpstream(apiserver.NewAPIServerCommand())
	case "kube-controller-manager":
		runUpstream(controllermanager.NewControllerManagerCommand())
	case "help", "-h", "--help":
		fmt.Print(usage)
	default:
		fmt.Fprintf(os.Stderr, "control-plane: unknown part %q\n\n%s", part, usage)
		os.Exit(2)
	}
}

// runUpstream runs an upstream command with what follows the part's name.
func runUpstream(command *cobra.Command) {
	os.Args = os.Args[1:]
	os.Exit(cli.Run(command))
}

// exit ends the process as the error asks: 0, 2 for a wrong command line, else 1.
func exit(err error) {
	var wrong usageError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	case errors.As(err, &wrong):
		fmt.Fprintln(os.Stderr, "control-plane:", err)
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "control-plane:", err)
		os.Exit(1)
	}
}

// usageError is a command line that makes no sense.
type usageError string

func (e usageError) Error() string { return string(e) }

// parse reads the flags of one part, which takes no other arguments.
func parse(flags *flag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return usageError(err.Error())
	}
	if flags.NArg() > 0 {
		return usageError(fmt.Sprintf("%s: unexpected argument %q", flags.Name(), flags.Arg(0)))
	}
	return nil
}
