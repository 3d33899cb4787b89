package cli

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
)

// topWidth is the column of the values at the top, as kubectl has it.
const topWidth = 18

// text is the description, in kubectl's order.
func (d described) text() string {
	s := &sheet{}
	d.top(s)
	d.containers(s, "Init Containers", d.pod.Spec.InitContainers, d.pod.Status.InitContainerStatuses)
	d.containers(s, "Containers", d.pod.Spec.Containers, d.pod.Status.ContainerStatuses)
	d.containers(s, "Ephemeral Containers", ephemeralContainers(d.pod), d.pod.Status.EphemeralContainerStatuses)
	d.conditions(s)
	d.volumes(s)
	s.field(0, topWidth, "QoS Class", orNone(string(d.pod.Status.QOSClass)))
	d.list(s, "Tolerations", tolerations(d.pod.Spec.Tolerations))
	s.rows("Events", eventTable(d.events, d.now))
	return s.String()
}

func (d described) top(s *sheet) {
	p := d.pod
	field := func(key, value string) { s.field(0, topWidth, key, value) }
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
	field("Node", orNone(p.Spec.NodeName))
	field("Start Time", d.time(p.Status.StartTime))
	d.list(s, "Labels", pairs(p.Labels, "="))
	d.list(s, "Annotations", pairs(p.Annotations, ": "))
	optional("Manifest", d.unit.Name)
	optional("Manifest Digest", d.unit.Digest)
	optional("Manifest Fault", strings.Join(d.unit.Faults, "\n"))
	optional("Warning", strings.Join(d.unit.Warnings, "\n"))
	if d.unit.Restored {
		field("Revision", "the last good one; the newest is at fault")
	}
	if p.DeletionTimestamp != nil {
		field("Status", fmt.Sprintf("Terminating (lasts %s)", duration.HumanDuration(d.now.Sub(p.DeletionTimestamp.Time))))
		if p.DeletionGracePeriodSeconds != nil {
			field("Grace Period", fmt.Sprintf("%ds", *p.DeletionGracePeriodSeconds))
		}
	} else {
		field("Status", orNone(string(p.Status.Phase)))
	}
	optional("Reason", p.Status.Reason)
	optional("Message", p.Status.Message)
	field("Restart Policy", orNone(string(p.Spec.RestartPolicy)))
	if p.Spec.HostNetwork {
		field("Host Network", "true")
	}
	field("IP", orNone(p.Status.PodIP))
	if len(p.Status.PodIPs) > 1 {
		var ips []string
		for _, ip := range p.Status.PodIPs {
			ips = append(ips, ip.IP)
		}
		d.list(s, "IPs", ips)
	}
}

func (d described) list(s *sheet, key string, values []string) {
	if len(values) == 0 {
		values = []string{"<none>"}
	}
	s.field(0, topWidth, key, strings.Join(values, "\n"))
}

// time is a moment as kubectl has it, in the zone of now.
func (d described) time(t *metav1.Time) string {
	if t == nil || t.IsZero() {
		return "<none>"
	}
	return t.In(d.now.Location()).Format(time.RFC1123Z)
}

// conditions has what kubectl leaves out: since when, and why.
func (d described) conditions(s *sheet) {
	t := table{head: []string{"Type", "Status", "Since", "Reason", "Message"}}
	for i := range d.pod.Status.Conditions {
		c := &d.pod.Status.Conditions[i]
		since := "<none>"
		if !c.LastTransitionTime.IsZero() {
			since = duration.HumanDuration(d.now.Sub(c.LastTransitionTime.Time))
		}
		t.rows = append(t.rows, []string{string(c.Type), string(c.Status), since, orNone(c.Reason), oneLine(strings.ReplaceAll(c.Message, "\n", "; "))})
	}
	s.rows("Conditions", t)
}

// volumes prints each volume by the fields that its manifest gives, so that no
// type is left out.
func (d described) volumes(s *sheet) {
	if len(d.pod.Spec.Volumes) == 0 {
		s.line(0, "Volumes:  <none>")
		return
	}
	s.head(0, "Volumes")
	for _, v := range d.pod.Spec.Volumes {
		s.head(2, v.Name)
		var source map[string]map[string]any
		data, err := json.Marshal(v.VolumeSource)
		if err == nil {
			err = json.Unmarshal(data, &source)
		}
		if err != nil {
			s.field(4, 15, "Type", "<unknown>")
			continue
		}
		for _, kind := range slices.Sorted(maps.Keys(source)) {
			s.field(4, 15, "Type", title(kind))
			for _, key := range slices.Sorted(maps.Keys(source[kind])) {
				heading := title(key)
				if key == "type" {
					heading = title(kind) + "Type" // apart from the volume's
				}
				value := plain(source[kind][key])
				if mode, ok := source[kind][key].(float64); ok && key == "defaultMode" {
					value = fmt.Sprintf("%#o", int(mode))
				}
				s.field(4, 15, heading, value)
			}
		}
	}
}

// title is a field's name as a heading.
func title(name string) string {
	if name == "" {
		return name
	}
	return strings.ToUpper(name[:1]) + name[1:]
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
		all = append(all, k+separator+oneLine(m[k]))
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
