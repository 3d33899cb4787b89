// Command podstead runs static pods on a container runtime, without Kubernetes.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/podstead/podstead/cli"
	"github.com/podstead/podstead/cli/terminal"
	"github.com/podstead/podstead/daemon"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	// A second signal ends the program at once: the first one restores the default
	// handling.
	context.AfterFunc(ctx, stop)
	err := commandAs(os.Args[0], os.Args[1:]).ExecuteContext(ctx)
	stop()
	if err != nil && !cli.Silent(err) {
		// Errors quote containers, manifests and the runtime.
		fmt.Fprintln(os.Stderr, "podstead: "+terminal.Visible(cli.Message(err)))
	}
	os.Exit(cli.Code(err))
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:   "podstead",
		Short: "Run the pods of a directory, without Kubernetes",
		Long: `podstead runs Pod manifests from a directory, a URL or a registry on containerd, CRI-O or
cri-dockerd, and keeps the pods running. It needs no Kubernetes.`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	// Keep the default template: another one would link text/template, which keeps
	// every method of every type in the binary.
	root.Version = cli.ProgramVersion().String()
	root.AddCommand(daemon.Commands()...)
	// The text is the same as that of --version.
	root.AddCommand(cli.Commands(cli.ProgramVersion())...)
	cli.Finish(root)
	return root
}
