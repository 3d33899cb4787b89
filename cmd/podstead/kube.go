package main

import (
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/cmd/podstead/options"
	"github.com/podstead/podstead/httpapi/kubeapi"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/node/cgroup"
	"github.com/podstead/podstead/node/nodestatus"
	"github.com/podstead/podstead/supervisor"
)

// newKubeAPI makes the part of the Kubernetes API that this box answers.
func newKubeAPI(o *options.Options, describe func() *v1.Node, sup *supervisor.Supervisor, config *manifest.PodConfig, p parts) (*kubeapi.API, error) {
	versions, err := kubeapi.OpenVersions(filepath.Join(o.Paths.Root, "resource-version"))
	if err != nil {
		return nil, err
	}
	changed, objects := p.statuses.Subscribe, config.Objects()
	return kubeapi.New(kubeapi.Config{
		Versions: versions, Version: versionNumber(),
		Manifest: manifestOf(config, sup),
		Sources: kubeapi.Sources{
			Pods:   kubeapi.PodSource(sup.SyncedPods, changed),
			Events: kubeapi.EventSource(p.events.List, p.events.Subscribe),
			Nodes:  kubeapi.NodeSource(describe, changed),
			Namespaces: kubeapi.NamespaceSource(func() (names []string) {
				for _, pod := range sup.Pods() {
					names = append(names, pod.Namespace)
				}
				for _, o := range objects.List() {
					if o.Namespace != "" {
						names = append(names, o.Namespace)
					}
				}
				return names
			}, metav1.Now(), changed),
			ConfigMaps: kubeapi.ObjectSource(objects.ConfigMaps, objects.Subscribe),
			Secrets:    kubeapi.ObjectSource(objects.Secrets, objects.Subscribe),
			Claims:     kubeapi.ObjectSource(objects.Claims, objects.Subscribe),
		},
		Groups: []metav1.APIResourceList{kubeapi.UsageGroup},
		Subresources: []metav1.APIResource{
			{Name: "pods/attach", Kind: "PodAttachOptions", Namespaced: true, Verbs: metav1.Verbs{"create", "get"}},
			{Name: "pods/exec", Kind: "PodExecOptions", Namespaced: true, Verbs: metav1.Verbs{"create", "get"}},
			{Name: "pods/log", Kind: "Pod", Namespaced: true, Verbs: metav1.Verbs{"get"}},
			{Name: "pods/portforward", Kind: "PodPortForwardOptions", Namespaced: true, Verbs: metav1.Verbs{"create", "get"}},
		},
	}), nil
}

// nodeOf describes this node as it is whenever it is called. Without an inventory
// it does not tell what the runtime has.
func nodeOf(o *options.Options, name string, sup *supervisor.Supervisor, p parts, inventory *nodestatus.Inventory) func() *v1.Node {
	since, host, resources := time.Now(), nodestatus.ReadHost("/"), nodeResources(o)
	return func() *v1.Node {
		rt := sup.Runtime()
		in := nodestatus.Input{
			Name: name, Since: since, Capacity: shownCapacity(resources.Capacity()), Allocatable: shownCapacity(resources.Allocatable()),
			Labels: p.node.Labels, Addresses: p.addresses.Addresses(), Port: o.Remote.Port(),
			Version: versionText(), NotReady: rt.NotReady, Changed: rt.Since, Host: host,
			Pressures: p.eviction.NodeConditions(since),
		}
		if inventory != nil {
			in.Held = inventory.Held()
		}
		if rt.Version.Name != "" {
			in.Runtime = rt.Version.Name + "://" + rt.Version.Version
		}
		return nodestatus.Describe(in)
	}
}

// manifestOf tells which manifest a pod or an object beside pods comes from.
func manifestOf(config *manifest.PodConfig, sup *supervisor.Supervisor) func(kind, namespace, name string) string {
	return func(kind, namespace, name string) string {
		for _, o := range config.Objects().List() {
			if o.Kind == kind && o.Namespace == namespace && o.Name == name {
				return o.Unit
			}
		}
		if kind != "Pod" {
			return ""
		}
		for _, pod := range sup.Pods() {
			if pod.Namespace != namespace || pod.Name != name {
				continue
			}
			for _, source := range config.Snapshot() {
				for _, unit := range source.Units {
					for _, uid := range unit.UIDs {
						if uid == pod.UID {
							return unit.Name
						}
					}
				}
			}
		}
		return ""
	}
}

// shownCapacity is the capacity in the terms of a v1.Node, which knows no
// process IDs.
func shownCapacity(list v1.ResourceList) v1.ResourceList {
	delete(list, cgroup.ResourcePID)
	return list
}

// syncedPods lists pods for the API. Every route gets the same answer, also right
// after a restart of the daemon.
type syncedPods struct{ sup *supervisor.Supervisor }

// Pods implements httpapi.PodLister.
func (p syncedPods) Pods() []*v1.Pod { return p.sup.SyncedPods() }
