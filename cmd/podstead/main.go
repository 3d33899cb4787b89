// Command podstead runs static pods on a container runtime, without Kubernetes.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/podstead/podstead/cmd/podstead/cli"
	"github.com/podstead/podstead/cmd/podstead/cli/terminal"
	"github.com/podstead/podstead/internal/kubeversion"
)

// version is set by the linker (see the Makefile); it may be empty.
var version = ""

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	// A second signal ends the program at once: the first one restores the default
	// handling.
	context.AfterFunc(ctx, stop)
	err := commandAs(os.Args[0], os.Args[1:]).ExecuteContext(ctx)
	stop()
	if err != nil && !cli.Silent(err) {
		// Errors quote containers, manifests and the runtime.
		fmt.Fprintln(os.Stderr, "podstead: "+terminal.Visible(err.Error()))
	}
	os.Exit(cli.Code(err))
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:   "podstead",
		Short: "Run the pods of a directory, without Kubernetes",
		Long: `podstead runs Pod manifests from a directory or a URL on containerd, CRI-O or
cri-dockerd, and keeps the pods running. It needs no Kubernetes.`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	// Keep the default template: another one would link text/template, which keeps
	// every method of every type in the binary.
	root.Version = shownVersion()
	root.AddCommand(runCommand(), checkCommand())
	// The text is the same as that of --version.
	root.AddCommand(cli.Commands("podstead version " + shownVersion())...)
	cli.Finish(root)
	return root
}

// shownVersion returns the version for the user, with the Kubernetes release that podstead
// follows.
func shownVersion() string { return versionNumber() + " (Kubernetes " + kubeversion.Release + ")" }

// versionText returns the name and version of this program for the log.
func versionText() string { return "podstead " + versionNumber() }

// versionNumber returns the linked version, else the one that the Go tool recorded.
func versionNumber() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}
