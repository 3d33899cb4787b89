package main

import (
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/podstead/podstead/cmd/podstead/options"
)

// Without a kubeconfig nothing of a cluster is created: no client, no task, and no
// goroutine, for whose end the bubble would wait.
func TestNoClusterWithoutKubeconfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &daemon{opts: &options.Options{}, log: slog.New(slog.DiscardHandler)}
		if err := d.joinCluster(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d.member != nil || len(d.tasks) != 0 || clusterMember(d.member) != nil {
			t.Errorf("created member %v and %d tasks", d.member, len(d.tasks))
		}
	})
}
