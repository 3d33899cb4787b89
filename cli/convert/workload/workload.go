package workload

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/podstead/podstead/cli/convert/podbuild"
	"github.com/podstead/podstead/cli/convert/report"
	"github.com/podstead/podstead/cli/convert/tree"
	"github.com/podstead/podstead/manifest"
)

// kept are the kinds that are kept as they are.
var kept = []string{manifest.KindConfigMap, manifest.KindSecret, manifest.KindClaim, manifest.KindPriorityClass,
	manifest.KindRuntimeClass}

// workloads are the kinds whose spec has a pod template.
var workloads = []string{"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job"}

// Converter converts documents. The results are in the order of the documents.
type Converter struct {
	Report *report.Report
	// Namespace is that of objects that have none; empty leaves them without.
	Namespace string
	units     []podbuild.Unit
	pods      []map[string]any
	services  []object
}

// object is a document or an item of a list.
type object struct {
	file  string
	part  *manifest.Part
	path  string
	value map[string]any
	kind  string
}

// field returns a field of the object for the report.
func (o *object) field(path string) report.Field {
	full := path
	if o.path != "" {
		full = strings.TrimSuffix(o.path+"."+path, ".")
	}
	name := strings.TrimSpace(o.kind + " " + o.name())
	return report.Field{At: tree.Position{File: o.file, Line: o.part.Line(full)},
		Path: strings.TrimSuffix(name+": "+path, ": ")}
}

func (o *object) metadata() map[string]any {
	meta, _ := o.value["metadata"].(map[string]any)
	return meta
}

func (o *object) name() string {
	name, _ := o.metadata()["name"].(string)
	return name
}

// Document converts one document.
func (c *Converter) Document(file string, part *manifest.Part) {
	value, ok := part.Value.(map[string]any)
	if !ok {
		c.Report.Error(report.Field{At: tree.Position{File: file, Line: part.Line("")}}, "is not an object of Kubernetes",
			"must be a mapping with apiVersion, kind and metadata")
		return
	}
	c.object(object{file: file, part: part, value: value})
}

// Units returns the results. It is called once, after all documents.
func (c *Converter) Units() []podbuild.Unit {
	for i := range c.services {
		c.service(&c.services[i])
	}
	return c.units
}

func (c *Converter) object(o object) {
	o.kind, _ = o.value["kind"].(string)
	version, _ := o.value["apiVersion"].(string)
	if items, ok := o.value["items"].([]any); ok && strings.HasSuffix(o.kind, "List") {
		c.items(o, items)
		return
	}
	if meta := o.metadata(); meta != nil {
		clean(meta)
		if meta["namespace"] == nil && c.Namespace != "" && !strings.HasSuffix(o.kind, "Class") {
			meta["namespace"] = c.Namespace
		}
	}
	switch {
	case o.kind == "":
		c.Report.Error(o.field(""), "has no kind", "must be an object of Kubernetes, a Compose file or a Quadlet unit")
	case c.isHook(&o):
	case o.kind == "Pod":
		c.pod(&o)
	case slices.Contains(workloads, o.kind):
		c.workload(&o)
	case o.kind == "CronJob":
		c.Report.Lost(o.field("spec.schedule"), "the CronJob is left out: nothing runs at times of the day here",
			"write its jobTemplate as a Job and convert that; let a systemd timer run podstead delete POD --wait "+
				"--ignore-not-found, and podstead apply -f FILE")
	case o.kind == "Service":
		c.services = append(c.services, o)
	case slices.Contains(kept, o.kind):
		c.addUnchanged(&o)
	default:
		c.leaveOut(&o, version)
	}
}

// items converts the items of a list.
func (c *Converter) items(o object, items []any) {
	implied := strings.TrimSuffix(o.kind, "List")
	for i, item := range items {
		value, ok := item.(map[string]any)
		inner := object{file: o.file, part: o.part, path: fmt.Sprintf("items[%d]", i), value: value}
		if o.path != "" {
			inner.path = o.path + "." + inner.path
		}
		if !ok {
			c.Report.Error(inner.field(""), "is not an object of Kubernetes",
				"must be a mapping with apiVersion, kind and metadata")
			continue
		}
		if value["kind"] == nil && implied != "" {
			value["kind"], value["apiVersion"] = implied, o.value["apiVersion"]
		}
		if kind, _ := value["kind"].(string); strings.HasSuffix(kind, "List") {
			c.Report.Error(inner.field("kind"), "is a list in a list", "put its items into the outer list")
			continue
		}
		c.object(inner)
	}
}

// isHook reports whether helm would run the object at an event instead of installing it, and
// leaves it out.
func (c *Converter) isHook(o *object) bool {
	annotations, _ := o.metadata()["annotations"].(map[string]any)
	hook, _ := annotations["helm.sh/hook"].(string)
	if hook == "" {
		return false
	}
	f := o.field("metadata.annotations[helm.sh/hook]")
	if strings.HasPrefix(hook, "test") {
		c.Report.Note(f, "the test is left out: helm test runs it, not an installation", "")
		return true
	}
	c.Report.Lost(f, "the hook is left out: helm runs it at "+hook+", and nothing does here",
		"convert it by itself without the annotation, apply it when its time has come, and delete it")
	return true
}

// leaveOut reports an object that has no counterpart.
func (c *Converter) leaveOut(o *object, version string) {
	remedy := manifest.ForeignKindRemedy(o.kind, version)
	if o.kind == manifest.KindVolume || o.kind == manifest.KindStorageClass {
		remedy = "a claim is a directory of this node without it; to choose a disk, write a StorageClass with provisioner " +
			"podstead.io/directory, or a PersistentVolume of type hostPath, local or nfs"
	}
	if remedy != "" {
		c.Report.Lost(o.field("kind"), "the "+o.kind+" is left out", remedy)
		return
	}
	c.Report.Lost(o.field("kind"), fmt.Sprintf("the %s (%s) is left out: podstead has no such objects", o.kind, version),
		"")
}

// addUnchanged adds an object as it is.
func (c *Converter) addUnchanged(o *object) {
	delete(o.value, "status")
	if o.kind == manifest.KindClaim {
		spec, _ := o.value["spec"].(map[string]any)
		c.unbind(o, "spec", spec)
	}
	c.units = append(c.units, podbuild.Unit{Name: strings.ToLower(o.kind) + "-" + o.name(),
		Objects: []podbuild.Object{o.result(o.value, "")}})
}

// unbind removes from a claim what refers to the volumes and classes of its cluster, which are left
// out: a pod would wait for them.
func (c *Converter) unbind(o *object, path string, spec map[string]any) {
	for _, name := range []string{"storageClassName", "volumeName", "selector"} {
		if value, set := spec[name]; set && value != "" {
			delete(spec, name)
			c.Report.Note(o.field(path+"."+name), "is left out: the claim becomes a directory of this node",
				"to choose a disk, write a StorageClass with provisioner podstead.io/directory or a PersistentVolume, and set "+
					"the field again")
		}
	}
}

// result returns an object of the result whose fields come from those of o below a prefix.
func (o *object) result(value map[string]any, prefix string) podbuild.Object {
	return podbuild.Object{Value: value, Origin: o.field(strings.TrimSuffix(prefix, ".")),
		Locate: func(path string) report.Field {
			if path == "metadata.name" && prefix != "" {
				return o.field(path)
			}
			return o.field(prefix + path)
		}}
}

// pod keeps a pod.
func (c *Converter) pod(o *object) {
	delete(o.value, "status")
	spec, _ := o.value["spec"].(map[string]any)
	c.adapt(o, "spec", spec)
	c.pods = append(c.pods, o.value)
	c.units = append(c.units, podbuild.Unit{Name: o.name(), Objects: []podbuild.Object{o.result(o.value, "")}})
}

// workload converts an object with a pod template.
func (c *Converter) workload(o *object) {
	spec, _ := o.value["spec"].(map[string]any)
	template, _ := spec["template"].(map[string]any)
	podSpec, _ := template["spec"].(map[string]any)
	if podSpec == nil {
		c.Report.Error(o.field("spec.template.spec"), "is missing", "a "+o.kind+" must have a pod template")
		return
	}
	if o.name() == "" {
		c.Report.Error(o.field("metadata.name"), "is missing", "give the "+o.kind+" a name")
		return
	}
	if c.isStopped(o, spec) {
		return
	}
	name := o.name()
	if o.kind == "StatefulSet" {
		start := int64(0)
		if ordinals, ok := spec["ordinals"].(map[string]any); ok {
			start = number(ordinals["start"])
		}
		name = fmt.Sprintf("%s-%d", name, start)
	}
	metadata := map[string]any{"name": name}
	if namespace := o.metadata()["namespace"]; namespace != nil {
		metadata["namespace"] = namespace
	}
	if meta, ok := template["metadata"].(map[string]any); ok {
		clean(meta)
		for key, value := range meta {
			if key != "name" && key != "namespace" && key != "generateName" {
				metadata[key] = value
			}
		}
	}
	pod := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": podSpec}
	unit := podbuild.Unit{Name: name, Objects: []podbuild.Object{o.result(pod, "spec.template.")}}
	c.fields(o, spec, podSpec)
	if o.kind == "StatefulSet" {
		unit.Objects = append(unit.Objects, c.stateful(o, spec, podSpec, metadata)...)
	}
	c.adapt(o, "spec.template.spec", podSpec)
	c.pods = append(c.pods, pod)
	c.units = append(c.units, unit)
}

// isStopped reports whether the workload runs no pod, and leaves it out.
func (c *Converter) isStopped(o *object, spec map[string]any) bool {
	if replicas, set := spec["replicas"]; set && replicas != nil && number(replicas) == 0 {
		c.Report.Lost(o.field("spec.replicas"), "the "+o.kind+" is left out: it has no replicas",
			"set replicas: 1 to convert it")
		return true
	}
	if spec["suspend"] == true {
		c.Report.Lost(o.field("spec.suspend"), "the "+o.kind+" is left out: it is suspended",
			"remove the field to convert it")
		return true
	}
	return false
}

// number returns a number of a document; 0 for anything else.
func number(value any) int64 {
	n, _ := value.(json.Number)
	i, _ := n.Int64()
	return i
}

// clean removes what an API server and its clients maintain.
func clean(metadata map[string]any) {
	for _, key := range []string{"creationTimestamp", "generation", "managedFields", "ownerReferences", "resourceVersion",
		"selfLink", "uid", "finalizers"} {
		delete(metadata, key)
	}
	annotations, _ := metadata["annotations"].(map[string]any)
	for _, key := range []string{"kubectl.kubernetes.io/last-applied-configuration", "deployment.kubernetes.io/revision",
		"deprecated.daemonset.template.generation"} {
		delete(annotations, key)
	}
	if annotations != nil && len(annotations) == 0 {
		delete(metadata, "annotations")
	}
}

func isNumber(value any) bool {
	_, ok := value.(json.Number)
	return ok
}
