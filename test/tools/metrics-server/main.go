// Command metrics-server is the Kubernetes metrics server, built for the cluster tests.
package main

import (
	"os"

	"k8s.io/apiserver/pkg/server"
	"sigs.k8s.io/metrics-server/cmd/metrics-server/app"
)

func main() {
	if err := app.NewMetricsServerCommand(server.SetupSignalHandler()).Execute(); err != nil {
		os.Exit(1)
	}
}
