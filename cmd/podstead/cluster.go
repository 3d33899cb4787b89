package main

import (
	"log/slog"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cluster"
	"github.com/podstead/podstead/cmd/podstead/options"
	"github.com/podstead/podstead/httpapi"
	"github.com/podstead/podstead/supervisor"
)

// newCluster makes what joins this box to a cluster, nil if it joins none.
func newCluster(o *options.Options, describe func() *v1.Node, sup *supervisor.Supervisor, src *sources, bound *cluster.Objects, p parts, log *slog.Logger) (*cluster.Adapter, error) {
	if o.Cluster.Kubeconfig == "" {
		return nil, nil
	}
	return cluster.New(cluster.Config{
		Kubeconfig: o.Cluster.Kubeconfig, UserAgent: "podstead/" + versionNumber(),
		Node: describe, Subscribe: p.statuses.Subscribe,
		Pods: cluster.Pods{List: sup.Pods, Delivered: sup.SourceReady, Ended: sup.Ended, Bound: src.config},
		Log:  log, Events: p.events,
		Objects: bound,
		Registration: cluster.Registration{
			Elsewhere: !o.Cluster.Register, Taints: o.Cluster.Taints, ProviderID: o.Cluster.ProviderID,
			Look: o.Cluster.StatusUpdate, Report: o.Cluster.StatusReport, Lease: o.Cluster.Lease,
		},
		Certificates: cluster.Certificates{
			Bootstrap: o.Cluster.Bootstrap, Folder: o.Cluster.Folder, Rotate: o.Cluster.Rotate, Serving: o.Cluster.RotateServing,
		},
	})
}

// memberOf is nil for a box that joins no cluster.
func memberOf(joined *cluster.Adapter) httpapi.ClusterMember {
	if joined == nil {
		return nil
	}
	return joined
}
