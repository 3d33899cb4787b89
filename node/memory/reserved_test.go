package memory

import (
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestParseReserved(t *testing.T) {
	const text = "0:memory=1Gi,hugepages-1Gi=2Gi;1:memory=512Mi"
	got, err := ParseReserved(text)
	if want := (Nodes{0: {v1.ResourceMemory: gi, big: 2 * gi}, 1: {v1.ResourceMemory: gi / 2}}); err != nil ||
		!reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if got.String() != "0:hugepages-1Gi=2Gi,memory=1Gi;1:memory=512Mi" {
		t.Error(got)
	}
	if got, err := ParseReserved(""); err != nil || len(got) != 0 {
		t.Error(got, err)
	}
	for text, want := range map[string]string{
		"memory=1Gi":              `"memory=1Gi" must be a number of a NUMA node and its reserved memory, such as 0:memory=1Gi`,
		"-1:memory=1Gi":           "must be a number of a NUMA node",
		"0:cpu=1":                 `NUMA node 0: "cpu" is no type of memory`,
		"0:memory=0":              `NUMA node 0: memory: "0" must be an amount above 0`,
		"0:memory":                `NUMA node 0: memory: "" must be an amount above 0`,
		"0:memory=1Gi;0:memory=1": "NUMA node 0: memory is reserved twice",
	} {
		if _, err := ParseReserved(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// What is reserved on the nodes is what is not available to pods in total, by the kubelet's rule; a percent of
// the capacity may have been that of another one.
func TestCheckReserved(t *testing.T) {
	for name, c := range map[string]struct {
		reserved        Nodes
		fixed, relative int64
		want            string
	}{
		"equal":    {Nodes{0: {v1.ResourceMemory: gi}, 1: {v1.ResourceMemory: gi}}, 2 * gi, 0, ""},
		"one node": {Nodes{1: {v1.ResourceMemory: 2 * gi}}, 2 * gi, 0, ""},
		"less": {Nodes{0: {v1.ResourceMemory: gi}}, 11 * gi, 0,
			`the total amount "1Gi" of type "memory" is not equal to the value "11Gi" determined by Node Allocatable feature`},
		"example": {nil, 11 * gi, 0, "such as 0:memory=10Gi;1:memory=1Gi"},
		"no node": {Nodes{2: {v1.ResourceMemory: gi}}, gi, 0,
			"references a NUMA node 2 that does not exist on this machine; it has the NUMA nodes 0,1"},
		"nothing":   {nil, 0, 0, "you should specify the system reserved memory; set"},
		"hugepages": {Nodes{1: {v1.ResourceMemory: gi, big: gi}}, gi, 0, "hugepages-1Gi cannot be reserved"},
		"too much": {Nodes{0: {v1.ResourceMemory: 11 * gi}}, 11 * gi, 0,
			"NUMA node 0 has 10Gi of memory, and 11Gi are reserved; reserve less"},

		"percent":           {Nodes{0: {v1.ResourceMemory: 2 * gi}}, gi, gi, ""},
		"more memory since": {Nodes{0: {v1.ResourceMemory: 2 * gi}}, gi, gi + gi/100, ""},
		"less memory since": {Nodes{0: {v1.ResourceMemory: 2 * gi}}, gi, gi - gi/100, ""},
		"much less than a rule": {Nodes{0: {v1.ResourceMemory: gi + gi/4}}, gi, gi,
			`"1280Mi" of type "memory" is not equal to the value "2Gi"`},
		"much more than a rule": {Nodes{0: {v1.ResourceMemory: 4 * gi}}, gi, gi,
			`"4Gi" of type "memory" is not equal to the value "2Gi"`},
	} {
		err := CheckReserved(two, c.reserved, c.fixed, c.relative)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
