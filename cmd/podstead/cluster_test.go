package main

import (
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/podstead/podstead/cmd/podstead/options"
)

// Without a kubeconfig nothing of a cluster is made: no client, nothing that the
// box is asked for, and no goroutine, on whose end the bubble would insist.
func TestNoClusterCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		joined, err := newCluster(&options.Options{}, nil, nil, nil, nil, parts{}, slog.New(slog.DiscardHandler))
		if joined != nil || err != nil || memberOf(joined) != nil {
			t.Errorf("a member %v, %v", joined, err)
		}
	})
}
