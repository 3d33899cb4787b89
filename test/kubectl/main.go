// Command kubectl is Kubernetes' own command line, built for the end-to-end
// tests from the release whose API podstead answers. It is a module of its own
// so that nothing of it reaches the product's.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
)

func main() {
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		os.Exit(1)
	}
}
