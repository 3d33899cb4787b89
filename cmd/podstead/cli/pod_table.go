package cli

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/httpapi/podtable"
)

// podTable is the table of get pods: kubectl's columns, and in the wide form
// the source and what holds the pod up.
func podTable(pods []v1.Pod, wide bool) table {
	t := table{head: []string{"NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE"}}
	if wide {
		t.head = append(t.head, "IP", "NODE", "SOURCE", "MESSAGE")
	}
	now := time.Now()
	for i := range pods {
		p := &pods[i]
		ready, restarts, last := podtable.Tally(p)
		row := []string{
			p.Namespace, p.Name, fmt.Sprintf("%d/%d", ready, podtable.Containers(p)),
			podtable.State(p), podtable.Restarts(restarts, last, now), podtable.Age(p, now),
		}
		if wide {
			row = append(row, orNone(p.Status.PodIP), orNone(p.Spec.NodeName), orNone(p.Annotations["kubernetes.io/config.source"]), orNone(oneLine(podtable.Message(p))))
		}
		t.rows = append(t.rows, row)
	}
	return t
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func orNone(s string) string {
	if s == "" {
		return "<none>"
	}
	return s
}
