package workload

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// oneNode is why what chooses among nodes has no effect.
const oneNode = "has no effect: there is one node"

// adapt removes from a pod what a cluster would do with it and no node can.
func (c *Converter) adapt(o *object, path string, spec map[string]any) {
	if spec == nil {
		return
	}
	c.account(o, path, spec)
	c.affinity(o, path, spec)
	constraints, _ := spec["topologySpreadConstraints"].([]any)
	for i, item := range constraints {
		constraint, _ := item.(map[string]any)
		f := o.field(fmt.Sprintf("%s.topologySpreadConstraints[%d]", path, i))
		if constraint["whenUnsatisfiable"] == string(v1.DoNotSchedule) {
			c.Report.Lost(f, "nothing spreads pods over nodes",
				"put the manifests of pods that must not run together on different nodes")
		} else {
			c.Report.Note(f, oneNode, "")
		}
	}
	delete(spec, "topologySpreadConstraints")
	if node, ok := spec["nodeName"].(string); ok {
		c.Report.Note(o.field(path+".nodeName"),
			fmt.Sprintf("is left out: the pod runs on the node with its manifest, and not only on %q", node), "")
		delete(spec, "nodeName")
	}
	for field, lost := range map[string]string{
		"schedulingGates": "the pod starts at once",
		"readinessGates":  "the pod is ready without conditions that a controller sets",
		"schedulingGroup": "the pod starts without the others of its group",
	} {
		if spec[field] != nil {
			c.Report.Lost(o.field(path+"."+field), lost, "")
			delete(spec, field)
		}
	}
	if scheduler, ok := spec["schedulerName"].(string); ok {
		if scheduler != v1.DefaultSchedulerName {
			c.Report.Note(o.field(path+".schedulerName"), oneNode, "")
		}
		delete(spec, "schedulerName")
	}
	c.tokens(o, path, spec)
}

// account removes the service account, of which no token can be mounted.
func (c *Converter) account(o *object, path string, spec map[string]any) {
	for _, field := range []string{"serviceAccountName", "serviceAccount"} {
		name, ok := spec[field].(string)
		delete(spec, field)
		if ok && name != "" && name != "default" && spec["automountServiceAccountToken"] != false {
			c.Report.Lost(o.field(path+"."+field), "no token of an API server is mounted",
				"configure the program not to use the API, or give it a kubeconfig as a Secret")
		}
	}
	if spec["automountServiceAccountToken"] == true {
		c.Report.Lost(o.field(path+".automountServiceAccountToken"), "no token of an API server is mounted",
			"configure the program not to use the API, or give it a kubeconfig as a Secret")
		delete(spec, "automountServiceAccountToken")
	}
}

// affinity removes rules about other pods.
func (c *Converter) affinity(o *object, path string, spec map[string]any) {
	affinity, _ := spec["affinity"].(map[string]any)
	for _, field := range []string{"podAffinity", "podAntiAffinity"} {
		rules, _ := affinity[field].(map[string]any)
		at := path + ".affinity." + field
		if required := rules["requiredDuringSchedulingIgnoredDuringExecution"]; required != nil {
			c.Report.Lost(o.field(at+".requiredDuringSchedulingIgnoredDuringExecution"),
				"nothing chooses nodes by the pods that run there",
				"put the manifests of pods that must not run together on different nodes")
		}
		if preferred := rules["preferredDuringSchedulingIgnoredDuringExecution"]; preferred != nil {
			c.Report.Note(o.field(at+".preferredDuringSchedulingIgnoredDuringExecution"), oneNode, "")
		}
		delete(affinity, field)
	}
	if affinity != nil && len(affinity) == 0 {
		delete(spec, "affinity")
	}
}

// tokens removes projected tokens of a service account.
func (c *Converter) tokens(o *object, path string, spec map[string]any) {
	volumes, _ := spec["volumes"].([]any)
	for i, item := range volumes {
		volume, _ := item.(map[string]any)
		projected, _ := volume["projected"].(map[string]any)
		sources, _ := projected["sources"].([]any)
		if sources == nil {
			continue
		}
		left := slices.Clone(sources)
		for j, item := range sources {
			source, _ := item.(map[string]any)
			for _, kind := range []string{"serviceAccountToken", "clusterTrustBundle", "podCertificate"} {
				if source[kind] != nil {
					c.Report.Lost(o.field(fmt.Sprintf("%s.volumes[%d].projected.sources[%d].%s", path, i, j, kind)),
						"needs an API server; the file is missing", "configure the program not to use it")
					left = slices.DeleteFunc(left, func(other any) bool {
						o, _ := other.(map[string]any)
						return o[kind] != nil
					})
				}
			}
		}
		projected["sources"] = left
	}
}
