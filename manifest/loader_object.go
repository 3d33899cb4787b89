package manifest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	kindPod     = "Pod"
	kindPodList = "PodList"
	kindList    = "List"
)

// supportedKinds is what this version reads, in words.
var supportedKinds = "must be Pod, " + strings.Join(objectKinds, ", ") + ", PodList or List"

// templateKinds hold the template of a pod.
var templateKinds = []string{"DaemonSet", "Deployment", "Job", "CronJob", "ReplicaSet", "ReplicationController", "StatefulSet", "PodTemplate"}

// listObject is the shape of a list, apart from its items.
type listObject struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ListMeta `json:"metadata"`
	Items           json.RawMessage `json:"items"`
}

// document loads one document of the unit.
func (u *unitLoad) document(raw rawDocument) {
	at := newPlace(raw.tree, raw.before)
	if !u.countObject() {
		return
	}
	value, ok := raw.value.(map[string]any)
	if !ok {
		u.faultAt(at, "", fieldFault{
			problem: "is not a manifest but " + (&shape{place: at}).describe(raw.value, ""),
			remedy:  "must be a mapping with apiVersion, kind, metadata and spec",
		})
		return
	}
	u.object(value, at, "")
}

// object loads a pod, an object for pods or a list. An object without a kind of its own is of the
// implied one, as an item of a PodList is a Pod.
func (u *unitLoad) object(value map[string]any, at place, implied string) {
	kind, known := u.kind(value, at, implied)
	switch {
	case !known:
		return
	case kind == kindPod:
		u.pod(value, at)
	case slices.Contains(objectKinds, kind):
		u.localObject(kind, value, at)
	default:
		u.list(value, at, kind)
	}
}

// kind is the object's kind, and whether this version reads it. What is wrong
// with the kind and the version is told.
func (u *unitLoad) kind(value map[string]any, at place, implied string) (string, bool) {
	kind, kindSet := value["kind"].(string)
	version, versionSet := value["apiVersion"].(string)
	if implied != "" && value["kind"] == nil {
		kind, kindSet = implied, true
	}
	if implied != "" && value["apiVersion"] == nil {
		version, versionSet = "v1", true
	}
	missing := fieldFault{problem: "is missing", remedy: supportedKinds}
	if !kindSet || kind == "" {
		fault := missing
		fault.path = "kind"
		if kind := value["kind"]; kind != nil && kind != "" {
			fault.problem = "is " + (&shape{place: at}).describe(kind, "kind")
		}
		u.faultAt(at, "", fault)
	}
	if !versionSet || version == "" {
		fault := missing
		fault.path, fault.remedy = "apiVersion", "must be "+cmp.Or(kindVersions[kind], "v1")
		if version := value["apiVersion"]; version != nil && version != "" {
			fault.problem = "is " + (&shape{place: at}).describe(version, "apiVersion")
		}
		u.faultAt(at, "", fault)
	}
	if kind == "" {
		return "", false
	}
	if !knownKind(kind) {
		u.faultAt(at, "", fieldFault{path: "kind", problem: quote(kind) + " is not supported by this version of podstead", remedy: kindRemedy(kind)})
		return kind, false
	}
	if implied == kindPod && kind != kindPod {
		u.faultAt(at, "", fieldFault{path: "kind", problem: "is " + quote(kind), remedy: "must be Pod in a PodList; a List holds objects of any kind"})
		return kind, false
	}
	if right := kindVersions[kind]; version != "" && version != right {
		u.faultAt(at, "", fieldFault{path: "apiVersion", problem: "is " + quote(version), remedy: "must be " + right + " for a " + kind})
	}
	return kind, true
}

func kindRemedy(kind string) string {
	if slices.Contains(templateKinds, kind) {
		return "make a Pod of its pod template; " + supportedKinds
	}
	if meant := NearestName(kind, append([]string{kindPod, kindPodList, kindList}, objectKinds...)); meant != "" {
		return fmt.Sprintf("did you mean %q?", meant)
	}
	return supportedKinds
}

// list loads the items of a PodList or List.
func (u *unitLoad) list(value map[string]any, at place, kind string) {
	s := &shape{place: at}
	s.visit(maps.Clone(value), reflect.TypeFor[listObject](), "", nil)
	for _, twice := range duplicateKeys(at.tree, "", nil) {
		if !strings.HasPrefix(twice.path, "items[") {
			s.faults = append(s.faults, twice.fault(at))
		}
	}
	u.faultsAt(at, "", s.faults)

	items, set := value["items"]
	if items == nil {
		// A list that ends after "items:" may be half a list. One that says
		// null, as Go writes an empty list, has no items.
		if node := at.node("items"); !set || node == nil || node.Value == "" {
			u.faultAt(at, "", fieldFault{path: "items", problem: "is missing", remedy: "an empty list is written as items: []"})
		}
		return
	}
	list, ok := items.([]any)
	if !ok {
		u.faultAt(at, "", fieldFault{path: "items", problem: "is " + s.describe(items, "items"), remedy: "must be a list: put a dash in front of each item"})
		return
	}
	implied := ""
	if kind == kindPodList {
		implied = kindPod
	}
	for i, item := range list {
		if !u.countObject() {
			return
		}
		path := fmt.Sprintf("items[%d]", i)
		object, ok := item.(map[string]any)
		switch {
		case ok:
			u.object(object, at.item(path), implied)
		case item == nil:
			u.faultAt(at, "", fieldFault{path: path, problem: "is empty", remedy: "must be a Pod, or be taken out"})
		default:
			u.faultAt(at, "", fieldFault{path: path, problem: "is " + s.describe(item, path), remedy: "must be a Pod"})
		}
	}
}

// fault words a duplicate. Its line is that of the last one, which would count.
func (d duplicateKey) fault(at place) fieldFault {
	return fieldFault{
		path:    d.path,
		problem: "is there twice",
		remedy:  fmt.Sprintf("take one of them out; the first is on line %d", at.before+d.first),
		lenient: true,
		line:    at.before + d.last,
	}
}

// faultsAt adds the faults of one object as the Mode wants them, and reports
// those that are fatal.
func (u *unitLoad) faultsAt(at place, object string, faults []fieldFault) []fieldFault {
	var fatal []fieldFault
	for _, fault := range faults {
		if fault.lenient && u.loader.mode == ModeIgnore {
			continue
		}
		u.faultAt(at, object, fault)
		if !u.isWarning(fault) {
			fatal = append(fatal, fault)
		}
	}
	return fatal
}

func (u *unitLoad) isWarning(fault fieldFault) bool {
	return fault.warning || fault.lenient && u.loader.mode != ModeStrict
}

func (u *unitLoad) faultAt(at place, object string, fault fieldFault) {
	line := fault.line
	if line == 0 {
		line = at.line(fault.path)
	}
	u.fault(Fault{
		Line:    line,
		Object:  object,
		Path:    joinPath(at.path, fault.path),
		Problem: fault.problem,
		Remedy:  fault.remedy,
		Warning: u.isWarning(fault),
	})
}

// objectName is how the faults of a pod call it; empty if it has no name.
func objectName(meta metav1.Object) string {
	if meta.GetName() == "" {
		return ""
	}
	return kindPod + " " + fullName(meta)
}

// fullName is namespace/name, with the namespace that an empty one becomes.
func fullName(meta metav1.Object) string {
	namespace := meta.GetNamespace()
	if namespace == "" {
		namespace = v1.NamespaceDefault
	}
	return namespace + "/" + meta.GetName()
}
