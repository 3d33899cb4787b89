package daemon

import (
	"context"
	"path/filepath"

	"github.com/podstead/podstead/cluster"
	"github.com/podstead/podstead/httpapi"
	"github.com/podstead/podstead/internal/buildinfo"
)

// joinCluster creates the cluster adapter. Without a kubeconfig it creates nothing.
func (d *daemon) joinCluster(context.Context) error {
	o := &d.opts.Cluster
	if o.Kubeconfig == "" {
		return nil
	}
	member, err := cluster.New(cluster.Config{
		Kubeconfig: o.Kubeconfig, UserAgent: "podstead/" + buildinfo.Version(),
		Node: d.node.describeForCluster, Subscribe: d.observers.statuses.Subscribe,
		Pods: cluster.Pods{List: d.sup.Pods, Delivered: d.sup.SourceReady, Ended: d.sup.Ended, Started: d.sup.Started,
			Bound: d.sources.config},
		Log: d.log, Events: d.observers.events,
		SentEvents:    cluster.StateFile{Path: filepath.Join(d.opts.Paths.Root, "cluster-events.json"), Disk: d.disk},
		Objects:       d.bound,
		Storage:       d.csi,
		UpdatePodCIDR: d.runtime.Client.UpdatePodCIDR,
		Requests:      cluster.RateLimit{QPS: o.Rates.APIQPS, Burst: o.Rates.APIBurst},
		EventRequests: cluster.RateLimit{QPS: o.Rates.EventQPS, Burst: o.Rates.EventBurst},
		Registration: cluster.Registration{
			External: !o.Register, Taints: o.Taints, ProviderID: o.ProviderID, ExternalCloud: o.ExternalCloud,
			StatusInterval: o.StatusUpdate, ReportInterval: o.StatusReport, LeaseDuration: o.Lease,
		},
		Certificates: cluster.Certificates{
			Bootstrap: o.Bootstrap, Directory: o.Dir, Rotate: o.Rotate, Serving: o.RotateServing,
		},
	})
	if err != nil {
		return err
	}
	d.member = member
	d.sup.SetTaints(member.Taints)
	d.start(member.Run)
	return nil
}

// clusterMember converts a nil adapter to a nil interface.
func clusterMember(a *cluster.Adapter) httpapi.ClusterMember {
	if a == nil {
		return nil
	}
	return a
}
