package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	v1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"

	"github.com/podstead/podstead/manifest/validation"
)

// loadPod loads one pod: the known one, or one that is decoded, defaulted,
// validated and given its identity.
func (u *unitLoad) loadPod(value map[string]any, at location) {
	twice := duplicateKeys(at.tree)
	digest := documentDigest(value, twice)
	if u.req.Known != nil {
		// A known pod may have been made under another node name.
		if pod, ok := u.req.Known(digest); ok && pod.Spec.NodeName == u.loader.node {
			u.warn(pod, requestedNode(value), at)
			u.acceptPod(Document{Digest: digest, Pod: pod}, at)
			return
		}
	}
	requested := requestedNode(value)
	faults := duplicateFaults(twice, at)
	faults = append(faults, at.schemaChecker().Check(value, reflect.TypeFor[v1.Pod]())...)

	pod := &v1.Pod{}
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, pod)
	}
	if err != nil {
		faults = append(faults, validation.FieldFault{Problem: "cannot be decoded: " + err.Error()})
	}
	object := objectName(pod)
	fatal := u.faultsAt(at, object, faults)

	validation.SetDefaults(pod)
	validation.TranslateAnnotations(pod)
	invalid := validation.CheckPod(pod)
	if !slices.ContainsFunc(invalid, func(f validation.FieldFault) bool { return f.Path == "metadata.name" }) {
		invalid = append(invalid, u.loader.checkFullName(pod.Name)...)
	}
	invalid = validation.WithoutConsequences(invalid, fatal)
	for _, fault := range invalid {
		u.faultAt(at, object, fault)
	}
	u.loader.identify(pod, u.req.Source)
	if len(fatal)+len(invalid) == 0 {
		u.warn(pod, requested, at)
	}
	u.acceptPod(Document{Digest: digest, Pod: pod}, at)
}

// requestedNode returns the spec.nodeName of a document. That of its pod is this node.
func requestedNode(value map[string]any) string {
	spec, _ := value["spec"].(map[string]any)
	name, _ := spec["nodeName"].(string)
	return name
}

// warn reports what cannot work in a pod that is otherwise valid. requested is the
// node that its document names.
func (u *unitLoad) warn(pod *v1.Pod, requested string, at location) {
	meta := pod.ObjectMeta
	meta.Name = BaseName(pod)
	warnings := validation.Warnings(pod)
	if requested != "" && requested != u.loader.node {
		warnings = append(warnings, validation.FieldFault{Path: "spec.nodeName", Warning: true,
			Problem: validation.Quote(requested) + " is another node and has no effect: the pod runs on " + u.loader.node,
			Remedy:  "remove the field; the node that reads a manifest runs it"})
	}
	for _, fault := range warnings {
		u.faultAt(at, objectName(&meta), fault)
	}
}

// acceptPod adds a document unless the unit has another pod with that name or
// UID. Whether the unit as a whole is accepted is decided at the end.
func (u *unitLoad) acceptPod(document Document, at location) {
	pod := document.Pod
	meta := pod.ObjectMeta
	meta.Name = BaseName(pod)
	object := objectName(&meta)
	if name := fullName(&meta); meta.Name != "" {
		if first, twice := u.names[name]; twice {
			u.faultAt(at, object, validation.FieldFault{Path: "metadata.name",
				Problem: "another pod in the same file has this namespace and name",
				Remedy:  fmt.Sprintf("rename one of them; the first is on line %d", first)})
			return
		}
		u.names[name] = at.line("metadata.name")
	}
	if first, twice := u.uids[string(pod.UID)]; twice && meta.Name != "" {
		u.faultAt(at, object, validation.FieldFault{Path: "metadata.uid",
			Problem: "another pod in the same file has the uid " + validation.Quote(string(pod.UID)),
			Remedy:  fmt.Sprintf("change or remove one of them; the first is on line %d", first)})
		return
	}
	u.uids[string(pod.UID)] = at.line("metadata.uid")
	u.documents = append(u.documents, document)
}

// documentDigest returns the sha256 of a document as it was decoded, and of its
// duplicate keys: adding a duplicate is an edit of the document.
func documentDigest(value map[string]any, twice []duplicateKey) string {
	text, err := json.Marshal(value)
	if err != nil {
		// A value that was decoded from JSON can be encoded.
		panic(err)
	}
	buffer := bytes.NewBuffer(text)
	for _, key := range twice {
		buffer.WriteString("\n" + key.path)
	}
	return Digest(buffer.Bytes())
}

// checkFullName checks the name that the pod will have on this node.
func (l *Loader) checkFullName(name string) []validation.FieldFault {
	suffix := nodeSuffix(l.node)
	if most := utilvalidation.DNS1123SubdomainMaxLength - len(suffix); len(name) > most {
		return []validation.FieldFault{{Path: "metadata.name", Problem: fmt.Sprintf("is %d characters long", len(name)),
			Remedy: fmt.Sprintf("must be at most %d, since %q is appended", most, suffix)}}
	}
	if rules := utilvalidation.IsDNS1123Subdomain(name + suffix); len(rules) > 0 {
		return []validation.FieldFault{{Path: "metadata.name",
			Problem: validation.Quote(name+suffix) + ", the name with the suffix of the node, is not valid",
			Remedy:  validation.DescribeRules(rules)}}
	}
	return nil
}
