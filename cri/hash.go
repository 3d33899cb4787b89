package cri

import (
	"encoding/json"
	"hash/fnv"
	"strconv"

	v1 "k8s.io/api/core/v1"
)

// Hash returns the hash of the parts of a container that can change while its pod
// keeps running: image, cpu and memory. It is stored in AnnotationContainerHash,
// and the resources in AnnotationResources, to distinguish a change of resources
// from one of the image, which restarts the container. Quantities are compared by
// value: 1 cpu and 1000m are the same. The kubelet's hash covers name and image
// only.
func Hash(c *v1.Container) string { return hashOf(c, ResourcesOf(&c.Resources)) }

// hashOf returns the hash of a container with other resources than its own.
func hashOf(c *v1.Container, r Resources) string {
	r.Inherited = nil
	// The JSON of a struct and of sorted maps is the same in every release of Go;
	// the golden test detects a change.
	text, err := json.Marshal(struct {
		Name  string `json:"name"`
		Image string `json:"image"`
		Resources
	}{c.Name, c.Image, r})
	if err != nil {
		panic("cri: strings and numbers do not marshal: " + err.Error())
	}
	h := fnv.New32a()
	_, _ = h.Write(text)
	return strconv.FormatUint(uint64(h.Sum32()), 16)
}
