package describe

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/podstead/podstead/cmd/podstead/cli/objects"
	"github.com/podstead/podstead/cmd/podstead/cli/terminal"
)

// topWidth is the column of the values at the top, as kubectl has it.
const topWidth = 18

// text is the description, in kubectl's order.
func (d PodDescription) Text() string {
	s := &terminal.Report{}
	d.top(s)
	d.containers(s, "Init Containers", d.Pod.Spec.InitContainers, d.Pod.Status.InitContainerStatuses)
	d.containers(s, "Containers", d.Pod.Spec.Containers, d.Pod.Status.ContainerStatuses)
	d.containers(s, "Ephemeral Containers", objects.EphemeralContainers(d.Pod), d.Pod.Status.EphemeralContainerStatuses)
	d.conditions(s)
	d.volumes(s)
	s.Field(0, topWidth, "QoS Class", terminal.OrNone(string(d.Pod.Status.QOSClass)))
	d.list(s, "Tolerations", tolerations(d.Pod.Spec.Tolerations))
	s.Table("Events", eventTable(d.Events, d.Now))
	return s.String()
}

func (d PodDescription) top(s *terminal.Report) {
	p := d.Pod
	field := func(key, value string) { s.Field(0, topWidth, key, value) }
	optional := func(key, value string) {
		if value != "" {
			field(key, value)
		}
	}
	field("Name", p.Name)
	field("Namespace", p.Namespace)
	field("UID", string(p.UID))
	if p.Spec.Priority != nil {
		field("Priority", strconv.Itoa(int(*p.Spec.Priority)))
	}
	optional("Priority Class", p.Spec.PriorityClassName)
	field("Node", terminal.OrNone(p.Spec.NodeName))
	field("Start Time", d.time(p.Status.StartTime))
	d.list(s, "Labels", pairs(p.Labels, "="))
	d.list(s, "Annotations", pairs(p.Annotations, ": "))
	optional("Manifest", d.Manifest.Name)
	optional("Manifest Digest", d.Manifest.Digest)
	optional("Manifest Fault", strings.Join(d.Manifest.Faults, "\n"))
	optional("Warning", strings.Join(d.Manifest.Warnings, "\n"))
	if d.Manifest.Restored {
		field("Revision", "the last good one; the newest is at fault")
	}
	if p.DeletionTimestamp != nil {
		field("Status", fmt.Sprintf("Terminating (lasts %s)", duration.HumanDuration(d.Now.Sub(p.DeletionTimestamp.Time))))
		if p.DeletionGracePeriodSeconds != nil {
			field("Grace Period", fmt.Sprintf("%ds", *p.DeletionGracePeriodSeconds))
		}
	} else {
		field("Status", terminal.OrNone(string(p.Status.Phase)))
	}
	optional("Reason", p.Status.Reason)
	optional("Message", p.Status.Message)
	field("Restart Policy", terminal.OrNone(string(p.Spec.RestartPolicy)))
	if p.Spec.HostNetwork {
		field("Host Network", "true")
	}
	field("IP", terminal.OrNone(p.Status.PodIP))
	if len(p.Status.PodIPs) > 1 {
		var ips []string
		for _, ip := range p.Status.PodIPs {
			ips = append(ips, ip.IP)
		}
		d.list(s, "IPs", ips)
	}
}

func (d PodDescription) list(s *terminal.Report, key string, values []string) {
	if len(values) == 0 {
		values = []string{"<none>"}
	}
	s.Field(0, topWidth, key, strings.Join(values, "\n"))
}

// time is a moment as kubectl has it, in the zone of now.
func (d PodDescription) time(t *metav1.Time) string {
	if t == nil || t.IsZero() {
		return "<none>"
	}
	return t.In(d.Now.Location()).Format(time.RFC1123Z)
}

// conditions has what kubectl leaves out: since when, and why.
func (d PodDescription) conditions(s *terminal.Report) {
	t := terminal.Table{Header: []string{"Type", "Status", "Since", "Reason", "Message"}}
	for i := range d.Pod.Status.Conditions {
		c := &d.Pod.Status.Conditions[i]
		since := "<none>"
		if !c.LastTransitionTime.IsZero() {
			since = duration.HumanDuration(d.Now.Sub(c.LastTransitionTime.Time))
		}
		t.Rows = append(t.Rows, []string{string(c.Type), string(c.Status), since, terminal.OrNone(c.Reason), terminal.OneLine(strings.ReplaceAll(c.Message, "\n", "; "))})
	}
	s.Table("Conditions", t)
}

// volumes prints each volume by the fields that its manifest gives, so that no
// type is left out.
func (d PodDescription) volumes(s *terminal.Report) {
	if len(d.Pod.Spec.Volumes) == 0 {
		s.Line(0, "Volumes:  <none>")
		return
	}
	s.Heading(0, "Volumes")
	for _, v := range d.Pod.Spec.Volumes {
		s.Heading(2, v.Name)
		var source map[string]map[string]any
		data, err := json.Marshal(v.VolumeSource)
		if err == nil {
			err = json.Unmarshal(data, &source)
		}
		if err != nil {
			s.Field(4, 15, "Type", "<unknown>")
			continue
		}
		for _, kind := range slices.Sorted(maps.Keys(source)) {
			s.Field(4, 15, "Type", terminal.Title(kind))
			for _, key := range slices.Sorted(maps.Keys(source[kind])) {
				heading := terminal.Title(key)
				if key == "type" {
					heading = terminal.Title(kind) + "Type" // apart from the volume's
				}
				value := plain(source[kind][key])
				if mode, ok := source[kind][key].(float64); ok && key == "defaultMode" {
					value = fmt.Sprintf("%#o", int(mode))
				}
				s.Field(4, 15, heading, value)
			}
		}
	}
}

// plain is a value of JSON without quotes where it is a text.
func plain(v any) string {
	if text, ok := v.(string); ok {
		return cmp.Or(text, "<none>")
	}
	text, _ := json.Marshal(v) // it was JSON before
	return string(text)
}

func pairs(m map[string]string, separator string) []string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		all = append(all, k+separator+terminal.OneLine(m[k]))
	}
	return all
}

func tolerations(list []v1.Toleration) []string {
	var all []string
	for _, t := range list {
		text := t.Key
		if t.Value != "" {
			text += "=" + t.Value
		}
		if t.Effect != "" {
			text += ":" + string(t.Effect)
		}
		if t.Operator == v1.TolerationOpExists {
			text = strings.TrimSpace(text + " op=Exists")
		}
		if t.TolerationSeconds != nil {
			text += fmt.Sprintf(" for %ds", *t.TolerationSeconds)
		}
		all = append(all, text)
	}
	return all
}
