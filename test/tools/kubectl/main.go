// Command kubectl is Kubernetes' kubectl, built for the end-to-end tests from the release
// whose API podstead serves. It is a separate module, so that its dependencies are not those
// of the product.
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
