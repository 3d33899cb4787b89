// Command apiserver is Kubernetes' own API server, built for the end-to-end
// tests of joining a cluster. It is a module of its own so that nothing of it
// reaches the product's.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	os.Exit(cli.Run(app.NewAPIServerCommand()))
}
