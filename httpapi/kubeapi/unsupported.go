package kubeapi

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// emptyResource is a resource of a cluster of which this node never has an object.
type emptyResource struct {
	group, version, name, singular, kind string
	short                                []string
	clusterScoped, all                   bool
}

// unsupportedResources are the resources that well-known clients list or watch at their start,
// and that kubectl get all and kubectl cluster-info ask for. A client that gets an empty list goes
// on, one that gets an error often does not. Without them, kubectl also reports of a file with a
// Deployment only that the kind is unknown, and not what to do.
var unsupportedResources = []emptyResource{
	{"", "v1", "endpoints", "endpoints", "Endpoints", []string{"ep"}, false, false},
	{"", "v1", "limitranges", "limitrange", "LimitRange", []string{"limits"}, false, false},
	{"", "v1", "replicationcontrollers", "replicationcontroller", "ReplicationController", []string{"rc"}, false, true},
	{"", "v1", "resourcequotas", "resourcequota", "ResourceQuota", []string{"quota"}, false, false},
	{"", "v1", "serviceaccounts", "serviceaccount", "ServiceAccount", []string{"sa"}, false, false},
	{"apiextensions.k8s.io", "v1", "customresourcedefinitions", "customresourcedefinition", "CustomResourceDefinition",
		[]string{"crd", "crds"}, true, false},
	{"apps", "v1", "daemonsets", "daemonset", "DaemonSet", []string{"ds"}, false, true},
	{"apps", "v1", "deployments", "deployment", "Deployment", []string{"deploy"}, false, true},
	{"apps", "v1", "replicasets", "replicaset", "ReplicaSet", []string{"rs"}, false, true},
	{"apps", "v1", "statefulsets", "statefulset", "StatefulSet", []string{"sts"}, false, true},
	{"autoscaling", "v2", "horizontalpodautoscalers", "horizontalpodautoscaler", "HorizontalPodAutoscaler",
		[]string{"hpa"}, false, true},
	{"batch", "v1", "cronjobs", "cronjob", "CronJob", []string{"cj"}, false, true},
	{"batch", "v1", "jobs", "job", "Job", nil, false, true},
	{"discovery.k8s.io", "v1", "endpointslices", "endpointslice", "EndpointSlice", nil, false, false},
	{"networking.k8s.io", "v1", "ingressclasses", "ingressclass", "IngressClass", nil, true, false},
	{"networking.k8s.io", "v1", "ingresses", "ingress", "Ingress", []string{"ing"}, false, false},
	{"networking.k8s.io", "v1", "networkpolicies", "networkpolicy", "NetworkPolicy", []string{"netpol"}, false, false},
	{"policy", "v1", "poddisruptionbudgets", "poddisruptionbudget", "PodDisruptionBudget", []string{"pdb"}, false, false},
	{"rbac.authorization.k8s.io", "v1", "clusterrolebindings", "clusterrolebinding", "ClusterRoleBinding", nil, true,
		false},
	{"rbac.authorization.k8s.io", "v1", "clusterroles", "clusterrole", "ClusterRole", nil, true, false},
	{"rbac.authorization.k8s.io", "v1", "rolebindings", "rolebinding", "RoleBinding", nil, false, false},
	{"rbac.authorization.k8s.io", "v1", "roles", "role", "Role", nil, false, false},
	{"storage.k8s.io", "v1", "csidrivers", "csidriver", "CSIDriver", nil, true, false},
	{"storage.k8s.io", "v1", "csinodes", "csinode", "CSINode", nil, true, false},
}

// emptyResources returns the rows of unsupportedResources.
func emptyResources(versions *Versions) []*resource {
	columns := []metav1.TableColumnDefinition{nameColumn(), column("Age", "Time since the creation of the object.")}
	rows := make([]*resource, 0, len(unsupportedResources))
	for _, e := range unsupportedResources {
		r := &resource{
			group: e.group, version: e.version, name: e.name, singular: e.singular, kind: e.kind, short: e.short,
			empty: &metav1.PartialObjectMetadata{}, namespaced: !e.clusterScoped, columns: columns, fields: nameFields,
			row:         func(o Object) []any { return []any{o.GetName(), since(o.GetCreationTimestamp())} },
			unsupported: true, cache: newCache(Source{}, versions),
		}
		if e.all {
			r.categories = []string{"all"}
		}
		rows = append(rows, r)
	}
	return rows
}
