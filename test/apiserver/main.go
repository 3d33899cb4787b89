// Command apiserver is Kubernetes' API server, built for the end-to-end tests of the cluster
// package. It is a separate module, so that its dependencies are not those of the product.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	os.Exit(cli.Run(app.NewAPIServerCommand()))
}
