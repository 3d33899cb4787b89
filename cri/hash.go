package cri

import (
	"encoding/json"
	"hash/fnv"
	"strconv"

	v1 "k8s.io/api/core/v1"
)

// Hash is the hash of what of a container may change while its pod goes on:
// image, cpu and memory. It is kept in AnnotationContainerHash, with the
// resources in AnnotationResources, so that a change of these can be told from
// one of the image, which restarts the container. Quantities count by value:
// 1 cpu and 1000m are the same. The kubelet's hash covers name and image only.
func Hash(c *v1.Container) string { return hashOf(c, ResourcesOf(&c.Resources)) }

// hashOf is the hash of a container with other resources than its own.
func hashOf(c *v1.Container, r Resources) string {
	// JSON of a struct and of sorted maps is the same in every release; the
	// golden test would tell if not.
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
