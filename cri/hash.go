package cri

import (
	"encoding/json"
	"hash/fnv"
	"strconv"

	v1 "k8s.io/api/core/v1"
)

// Hash is the hash of what of a container may change while its pod goes on:
// image, cpu and memory. It is kept in AnnotationContainerHash; a container
// with another one is restarted. Quantities count by value, so that 1 cpu and
// 1000m are the same. The kubelet's hash covers name and image only, since it
// resizes in place.
func Hash(c *v1.Container) string {
	type amounts map[v1.ResourceName]int64
	of := func(list v1.ResourceList) amounts {
		a := amounts{}
		if q, ok := list[v1.ResourceCPU]; ok {
			a[v1.ResourceCPU] = q.MilliValue()
		}
		if q, ok := list[v1.ResourceMemory]; ok {
			a[v1.ResourceMemory] = q.Value()
		}
		return a
	}
	// JSON of a struct and of sorted maps is the same in every release; the
	// golden test would tell if not.
	text, err := json.Marshal(struct {
		Name     string  `json:"name"`
		Image    string  `json:"image"`
		Requests amounts `json:"requests,omitempty"`
		Limits   amounts `json:"limits,omitempty"`
	}{c.Name, c.Image, of(c.Resources.Requests), of(c.Resources.Limits)})
	if err != nil {
		panic("cri: strings and numbers do not marshal: " + err.Error())
	}
	h := fnv.New32a()
	_, _ = h.Write(text)
	return strconv.FormatUint(uint64(h.Sum32()), 16)
}
