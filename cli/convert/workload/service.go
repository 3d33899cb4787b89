package workload

import (
	"encoding/json"
	"fmt"

	"github.com/podstead/podstead/cli/convert/podbuild"
)

// service keeps a Service as far as a node without a cluster can have it: its name. The caller
// leaves it out if the daemon does not accept it.
func (c *Converter) service(o *object) {
	delete(o.value, "status")
	spec, _ := o.value["spec"].(map[string]any)
	ports, _ := spec["ports"].([]any)
	if kind, _ := spec["type"].(string); kind == "LoadBalancer" || kind == "NodePort" {
		c.Report.Lost(o.field("spec.type"), "the Service is not reachable from other machines",
			"add hostPort to the ports of its pods")
		delete(spec, "type")
		for _, item := range ports {
			port, _ := item.(map[string]any)
			delete(port, "nodePort")
		}
	}
	for _, key := range []string{"allocateLoadBalancerNodePorts", "externalTrafficPolicy", "healthCheckNodePort",
		"loadBalancerClass", "loadBalancerIP", "loadBalancerSourceRanges", "internalTrafficPolicy", "ipFamilies",
		"ipFamilyPolicy", "clusterIPs"} {
		delete(spec, key)
	}
	if ip, _ := spec["clusterIP"].(string); ip != "None" {
		delete(spec, "clusterIP")
	}
	for _, key := range []string{"externalIPs", "sessionAffinity", "sessionAffinityConfig"} {
		if value := spec[key]; value != nil && value != "None" {
			c.Report.Lost(o.field("spec."+key), "a Service is a name here: clients get the addresses of its pods", "")
		}
		delete(spec, key)
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
			c.Report.Note(o.field(fmt.Sprintf("spec.ports[%d].targetPort", i)),
				fmt.Sprintf("no pod that the Service selects has a port %q", name), "")
		}
	}
	c.otherPorts(o, spec, ports)
	c.units = append(c.units, podbuild.Unit{Name: "service-" + o.name(),
		Objects: []podbuild.Object{o.result(o.value, "")}})
}

// otherPorts makes a Service headless whose port is not that of the pods: its name leads to them,
// and clients have to use their port.
func (c *Converter) otherPorts(o *object, spec map[string]any, ports []any) {
	if spec["clusterIP"] == "None" {
		return
	}
	for i, item := range ports {
		port, _ := item.(map[string]any)
		target, isNumber := port["targetPort"].(json.Number)
		if number, ok := port["port"].(json.Number); !ok || !isNumber || number == target {
			continue
		}
		c.Report.Lost(o.field(fmt.Sprintf("spec.ports[%d].port", i)),
			fmt.Sprintf("the name leads to the pods, which listen on %v and not on %v", target, port["port"]),
			fmt.Sprintf("let clients use port %v", target))
		spec["clusterIP"] = "None"
	}
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
