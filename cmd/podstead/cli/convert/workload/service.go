package workload

import (
	"encoding/json"
	"fmt"

	"github.com/podstead/podstead/cmd/podstead/cli/convert/podbuild"
)

// service keeps a Service as far as a node without a cluster can have it: its name. The caller
// leaves it out if the daemon does not accept it.
func (c *Converter) service(o *object) {
	delete(o.value, "status")
	spec, _ := o.value["spec"].(map[string]any)
	ports, _ := spec["ports"].([]any)
	if kind, _ := spec["type"].(string); kind == "LoadBalancer" || kind == "NodePort" {
		c.Report.Lost(o.field("spec.type"), "the Service is not reachable from other machines", "add hostPort to the ports of its pods")
		delete(spec, "type")
		for _, item := range ports {
			port, _ := item.(map[string]any)
			delete(port, "nodePort")
		}
	}
	for _, key := range []string{"allocateLoadBalancerNodePorts", "externalTrafficPolicy", "healthCheckNodePort", "loadBalancerClass", "loadBalancerIP", "loadBalancerSourceRanges", "internalTrafficPolicy", "ipFamilies", "ipFamilyPolicy", "clusterIPs"} {
		delete(spec, key)
	}
	if ip, _ := spec["clusterIP"].(string); ip != "None" {
		delete(spec, "clusterIP")
	}
	for i, item := range ports {
		port, _ := item.(map[string]any)
		name, named := port["targetPort"].(string)
		if !named {
			continue
		}
		if number, found := c.namedPort(o, spec, name); found {
			port["targetPort"] = number
		} else {
			c.Report.Note(o.field(fmt.Sprintf("spec.ports[%d].targetPort", i)), fmt.Sprintf("no pod that the Service selects has a port %q", name), "")
		}
	}
	c.units = append(c.units, podbuild.Unit{Name: "service-" + o.name(), Objects: []podbuild.Object{o.result(o.value, "")}})
}

// namedPort returns the number of a port of the pods that a Service selects, if it is the same
// in all of them.
func (c *Converter) namedPort(o *object, spec map[string]any, name string) (json.Number, bool) {
	selector, _ := spec["selector"].(map[string]any)
	if len(selector) == 0 {
		return "", false
	}
	var found json.Number
	for _, pod := range c.pods {
		meta, _ := pod["metadata"].(map[string]any)
		if meta["namespace"] != o.metadata()["namespace"] || !matches(selector, meta["labels"]) {
			continue
		}
		number, ok := portOf(pod, name)
		if !ok || found != "" && found != number {
			return "", false
		}
		found = number
	}
	return found, found != ""
}

func matches(selector map[string]any, labels any) bool {
	have, _ := labels.(map[string]any)
	for key, value := range selector {
		if have[key] != value {
			return false
		}
	}
	return true
}

// portOf returns the number of a named port of a pod.
func portOf(pod map[string]any, name string) (json.Number, bool) {
	spec, _ := pod["spec"].(map[string]any)
	for _, list := range []string{"containers", "initContainers"} {
		containers, _ := spec[list].([]any)
		for _, item := range containers {
			container, _ := item.(map[string]any)
			ports, _ := container["ports"].([]any)
			for _, item := range ports {
				port, _ := item.(map[string]any)
				if number, ok := port["containerPort"].(json.Number); ok && port["name"] == name {
					return number, true
				}
			}
		}
	}
	return "", false
}
