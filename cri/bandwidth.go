package cri

import (
	"context"
	"encoding/json"
	"strings"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// ReasonBandwidthIgnored is the event of a pod whose bandwidth is not limited.
const ReasonBandwidthIgnored = "BandwidthIgnored"

// warnBandwidth reports a pod that gets a sandbox without the limits of bandwidth that its
// annotations request, because the runtime's network has no plugin for them. The pod runs, as at
// the kubelet. A runtime that does not report its network, as CRI-O, may have the plugin.
func (t *transaction) warnBandwidth(ctx context.Context) {
	names := podinfo.BandwidthAnnotations(t.Pod)
	if len(names) == 0 {
		return
	}
	plugins, err := t.runtime.CNIPlugins(ctx)
	if err != nil || plugins == nil {
		return
	}
	for _, p := range plugins {
		if p.Capabilities["bandwidth"] {
			return
		}
	}
	t.events.Event(t.Pod, v1.EventTypeWarning, ReasonBandwidthIgnored, strings.Join(names, " and ")+
		` without effect: the runtime's CNI network has no plugin for it; add {"type": "bandwidth", "capabilities": {"bandwidth": true}} to its plugins, or remove the annotation`)
}

// CNIPlugin is a plugin of the runtime's pod network.
type CNIPlugin struct {
	Type         string          `json:"type"`
	Capabilities map[string]bool `json:"capabilities"`
}

// CNIPlugins returns the plugins of the networks that the runtime has loaded, nil if it does not
// report them. CRI does not define it: containerd puts it into its verbose status.
func (c *Client) CNIPlugins(ctx context.Context) ([]CNIPlugin, error) {
	info, err := c.verboseInfo(ctx)
	if err != nil {
		return nil, err
	}
	var networks struct {
		Networks []struct {
			Config struct {
				Plugins []struct{ Network CNIPlugin }
			}
		}
	}
	if json.Unmarshal([]byte(info["cniconfig"]), &networks) != nil {
		return nil, nil
	}
	var plugins []CNIPlugin
	for _, n := range networks.Networks {
		for _, p := range n.Config.Plugins {
			plugins = append(plugins, p.Network)
		}
	}
	return plugins, nil
}
