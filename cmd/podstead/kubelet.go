package main

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/podstead/podstead/internal/buildinfo"
	"github.com/podstead/podstead/internal/kubeversion"
)

// kubeletName is the name under which units and tools start a kubelet.
const kubeletName = "kubelet"

// commandAs returns the command for a program that is called by this name with these arguments.
// Called kubelet, through a link of that name, the program takes the kubelet's place for
// kubeadm and for systemd units: the flags are those of `podstead run`, and --version prints
// what the kubelet prints, which kubeadm parses.
func commandAs(name string, args []string) *cobra.Command {
	root := command()
	if filepath.Base(name) != kubeletName {
		root.SetArgs(args)
		return root
	}
	if slices.Contains(args, "--version") {
		return &cobra.Command{
			Use: kubeletName, SilenceErrors: true, SilenceUsage: true, DisableFlagParsing: true,
			RunE: func(cmd *cobra.Command, _ []string) error {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "Kubernetes "+kubeversion.Semantic(buildinfo.Version()))
				return err
			},
		}
	}
	root.SetArgs(append([]string{"run"}, args...))
	return root
}
