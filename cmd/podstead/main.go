// Command podstead keeps static pods running on a container runtime, without
// Kubernetes.
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
)

// version is set when a release is linked.
var version = ""

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	// A second signal ends the program at once: the first gave the default
	// handling back.
	context.AfterFunc(ctx, stop)
	err := command().ExecuteContext(ctx)
	stop()
	if err != nil && !cli.Silent(err) {
		fmt.Fprintln(os.Stderr, "podstead: "+err.Error())
	}
	os.Exit(cli.Code(err))
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:   "podstead",
		Short: "Run the pods of a folder, without Kubernetes",
		Long: `podstead runs Pod manifests from a folder or a URL on containerd, CRI-O or
cri-dockerd, and keeps them running. It needs no Kubernetes.`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	// The default template, on purpose: one of our own would link text/template,
	// which keeps every method of every type in the binary.
	root.Version = versionNumber()
	root.AddCommand(runCommand(), checkCommand())
	root.AddCommand(cli.Commands(versionText())...)
	cli.Finish(root)
	return root
}

// versionText is the name and version of this program.
func versionText() string { return "podstead " + versionNumber() }

// versionNumber is the linked version, else what the Go tool recorded.
func versionNumber() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}
