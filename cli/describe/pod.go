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

	"github.com/podstead/podstead/cli/objects"
	"github.com/podstead/podstead/cli/terminal"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// valueColumn is the column of the values, as in kubectl.
const valueColumn = 18

// Text returns the description, in kubectl's order.
func (d PodDescription) Text() string {
	r := &terminal.Report{}
	d.summary(r)
	d.containers(r, "Init Containers", podinfo.InitContainers, d.Pod.Status.InitContainerStatuses)
	d.containers(r, "Containers", podinfo.RegularContainers, d.Pod.Status.ContainerStatuses)
	d.containers(r, "Ephemeral Containers", podinfo.EphemeralContainers, d.Pod.Status.EphemeralContainerStatuses)
	d.rollout(r)
	d.imageUpdates(r)
	d.conditions(r)
	d.volumes(r)
	r.Field(0, valueColumn, "QoS Class", terminal.OrNone(string(d.Pod.Status.QOSClass)))
	d.list(r, "Tolerations", tolerations(d.Pod.Spec.Tolerations))
	r.Table("Events", eventTable(d.Events, d.Now))
	return r.String()
}

func (d PodDescription) summary(r *terminal.Report) {
	p := d.Pod
	field := func(key, value string) { r.Field(0, valueColumn, key, value) }
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
	if d.Start != nil {
		field("Started In", objects.StartSummary(d.Start))
	}
	d.list(r, "Labels", pairs(p.Labels, "="))
	d.list(r, "Annotations", pairs(p.Annotations, ": "))
	optional("Manifest", d.Manifest.Name)
	optional("Manifest Digest", d.Manifest.Digest)
	optional("Manifest Fault", strings.Join(d.Manifest.Faults, "\n"))
	optional("Warning", strings.Join(d.Manifest.Warnings, "\n"))
	if d.Manifest.Restored {
		field("Revision", "last good revision; the newest one is invalid")
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
		d.list(r, "IPs", ips)
	}
}

func (d PodDescription) list(r *terminal.Report, key string, values []string) {
	if len(values) == 0 {
		values = []string{"<none>"}
	}
	r.Field(0, valueColumn, key, strings.Join(values, "\n"))
}

// time formats a time as kubectl does, in the time zone of Now.
func (d PodDescription) time(t *metav1.Time) string {
	if t == nil || t.IsZero() {
		return "<none>"
	}
	return t.In(d.Now.Location()).Format(time.RFC1123Z)
}

// conditions adds the conditions with time, reason and message, which kubectl omits.
func (d PodDescription) conditions(r *terminal.Report) {
	t := terminal.Table{Header: []string{"Type", "Status", "Since", "Reason", "Message"}}
	for i := range d.Pod.Status.Conditions {
		c := &d.Pod.Status.Conditions[i]
		since := "<none>"
		if !c.LastTransitionTime.IsZero() {
			since = duration.HumanDuration(d.Now.Sub(c.LastTransitionTime.Time))
		}
		t.Rows = append(t.Rows, []string{string(c.Type), string(c.Status), since, terminal.OrNone(c.Reason),
			terminal.OneLine(strings.ReplaceAll(c.Message, "\n", "; "))})
	}
	r.Table("Conditions", t)
}

// volumes adds each volume with the fields in its manifest, so that every volume type is
// covered.
func (d PodDescription) volumes(r *terminal.Report) {
	if len(d.Pod.Spec.Volumes) == 0 {
		r.Line(0, "Volumes:  <none>")
		return
	}
	r.Heading(0, "Volumes")
	for _, v := range d.Pod.Spec.Volumes {
		r.Heading(2, v.Name)
		var source map[string]map[string]any
		data, err := json.Marshal(v.VolumeSource)
		if err == nil {
			err = json.Unmarshal(data, &source)
		}
		if err != nil {
			r.Field(4, 15, "Type", "<unknown>")
			continue
		}
		for _, kind := range slices.Sorted(maps.Keys(source)) {
			r.Field(4, 15, "Type", terminal.Title(kind))
			for _, key := range slices.Sorted(maps.Keys(source[kind])) {
				heading := terminal.Title(key)
				if key == "type" {
					heading = terminal.Title(kind) + "Type" // the field Type is the type of the volume
				}
				value := plain(source[kind][key])
				if mode, ok := source[kind][key].(float64); ok && key == "defaultMode" {
					value = fmt.Sprintf("%#o", int(mode))
				}
				r.Field(4, 15, heading, value)
			}
		}
	}
}

// plain returns a JSON value; a string without quotes.
func plain(v any) string {
	if text, ok := v.(string); ok {
		return cmp.Or(text, "<none>")
	}
	text, _ := json.Marshal(v) // v was decoded from JSON
	return string(text)
}

// pairs returns the entries of a map, sorted by key.
func pairs(m map[string]string, separator string) []string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		all = append(all, k+separator+terminal.OneLine(m[k]))
	}
	return all
}

// tolerations returns tolerations in kubectl's form.
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
