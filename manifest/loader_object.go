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

	"github.com/podstead/podstead/internal/suggest"
	"github.com/podstead/podstead/manifest/validation"
)

const (
	kindPod     = "Pod"
	kindPodList = "PodList"
	kindList    = "List"
)

// supportedKinds lists the supported kinds for messages.
var supportedKinds = "Pod, " + strings.Join(kindNames, ", ") + ", PodList or List"

// templateKinds are the kinds with a pod template.
var templateKinds = []string{"DaemonSet", "Deployment", "Job", "CronJob", "ReplicaSet", "ReplicationController",
	"StatefulSet", "PodTemplate"}

// listObject is a list whose items are decoded later.
type listObject struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ListMeta `json:"metadata"`
	Items           json.RawMessage `json:"items"`
}

// loadDocument loads one document of the unit.
func (u *unitLoad) loadDocument(raw rawDocument) {
	at := newLocation(raw.tree, raw.lineOffset)
	if !u.countObject() {
		return
	}
	value, ok := raw.value.(map[string]any)
	if !ok {
		u.faultAt(at, "", validation.FieldFault{
			Problem: "is not a manifest, but " + at.schemaChecker().Describe(raw.value, ""),
			Remedy:  "must be a mapping with apiVersion, kind, metadata and spec",
		})
		return
	}
	if fault := composeFault(value, at); fault != nil {
		u.faultAt(at, "", *fault)
		return
	}
	u.loadItem(value, at, "")
}

// loadItem loads a pod, another object or a list. An object without a kind has
// the implied one: an item of a PodList is a Pod.
func (u *unitLoad) loadItem(value map[string]any, at location, implied string) {
	kind, known := u.kind(value, at, implied)
	switch {
	case !known:
		return
	case kind == kindPod:
		u.loadPod(value, at)
	case slices.Contains(kindNames, kind):
		u.loadObject(kind, value, at)
	default:
		u.loadList(value, at, kind)
	}
}

// kind returns the kind of the object, and whether this version supports it. It
// reports faults of the kind and the API version.
func (u *unitLoad) kind(value map[string]any, at location, implied string) (string, bool) {
	kind, kindSet := value["kind"].(string)
	version, versionSet := value["apiVersion"].(string)
	if implied != "" && value["kind"] == nil {
		kind, kindSet = implied, true
	}
	if implied != "" && value["apiVersion"] == nil {
		version, versionSet = "v1", true
	}
	missing := validation.FieldFault{Problem: "is missing", Remedy: "must be " + supportedKinds}
	if !kindSet || kind == "" {
		fault := missing
		fault.Path = "kind"
		if kind := value["kind"]; kind != nil && kind != "" {
			fault.Problem = "is " + at.schemaChecker().Describe(kind, "kind")
		}
		u.faultAt(at, "", fault)
	}
	if !versionSet || version == "" {
		fault := missing
		fault.Path, fault.Remedy = "apiVersion", "must be "+cmp.Or(kindVersions[kind], "v1")
		if version := value["apiVersion"]; version != nil && version != "" {
			fault.Problem = "is " + at.schemaChecker().Describe(version, "apiVersion")
		}
		u.faultAt(at, "", fault)
	}
	if kind == "" {
		return "", false
	}
	if !knownKind(kind) {
		u.faultAt(at, "", validation.FieldFault{Path: "kind", Problem: validation.Quote(kind) + " is not supported",
			Remedy: KindRemedy(kind, version)})
		return kind, false
	}
	if implied == kindPod && kind != kindPod {
		u.faultAt(at, "", validation.FieldFault{Path: "kind", Problem: "is " + validation.Quote(kind),
			Remedy: "must be Pod in a PodList; a List can contain objects of any kind"})
		return kind, false
	}
	if right := kindVersions[kind]; version != "" && version != right {
		u.faultAt(at, "", validation.FieldFault{Path: "apiVersion", Problem: "is " + validation.Quote(version),
			Remedy: "must be " + right + " for a " + kind})
	}
	return kind, true
}

// KindRemedy returns what to do about a kind that is not supported.
func KindRemedy(kind, version string) string {
	if remedy := foreignRemedy(kind, version); remedy != "" {
		return remedy
	}
	if slices.Contains(templateKinds, kind) {
		return "convert it with podstead convert, or copy its pod template into a Pod. Supported kinds: " + supportedKinds
	}
	if meant := suggest.Nearest(kind, append([]string{kindPod, kindPodList, kindList}, kindNames...)); meant != "" {
		return fmt.Sprintf("did you mean %q?", meant)
	}
	return "supported kinds: " + supportedKinds
}

// loadList loads the items of a PodList or List.
func (u *unitLoad) loadList(value map[string]any, at location, kind string) {
	checker := at.schemaChecker()
	faults := checker.Check(maps.Clone(value), reflect.TypeFor[listObject]())
	for _, twice := range duplicateKeys(at.tree) {
		if !strings.HasPrefix(twice.path, "items[") {
			faults = append(faults, twice.fault(at))
		}
	}
	u.faultsAt(at, "", faults)

	items, set := value["items"]
	if items == nil {
		// A list that ends after "items:" may be truncated. A list with null
		// items, as Go writes an empty list, has no items.
		if node := at.node("items"); !set || node == nil || node.Value == "" {
			u.faultAt(at, "", validation.FieldFault{Path: "items", Problem: "is missing",
				Remedy: "write items: [] for an empty list"})
		}
		return
	}
	list, ok := items.([]any)
	if !ok {
		u.faultAt(at, "", validation.FieldFault{Path: "items", Problem: "is " + checker.Describe(items, "items"),
			Remedy: "must be a list: put a dash before each item"})
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
			u.loadItem(object, at.item(path), implied)
		case item == nil:
			u.faultAt(at, "", validation.FieldFault{Path: path, Problem: "is empty", Remedy: "must be a Pod, or be removed"})
		default:
			u.faultAt(at, "", validation.FieldFault{Path: path, Problem: "is " + checker.Describe(item, path),
				Remedy: "must be a Pod"})
		}
	}
}

// fault describes the duplicate. Its line is that of the last key, whose value
// would be used.
func (d duplicateKey) fault(at location) validation.FieldFault {
	return validation.FieldFault{
		Path:    d.path,
		Problem: "is set twice",
		Remedy:  fmt.Sprintf("remove one of them; the first is on line %d", at.lineOffset+d.first),
		Lenient: true,
		Line:    at.lineOffset + d.last,
	}
}

func duplicateFaults(keys []duplicateKey, at location) []validation.FieldFault {
	var faults []validation.FieldFault
	for _, key := range keys {
		faults = append(faults, key.fault(at))
	}
	return faults
}

// faultsAt adds the faults of one object according to the Mode, and returns the
// fatal ones.
func (u *unitLoad) faultsAt(at location, object string, faults []validation.FieldFault) []validation.FieldFault {
	var fatal []validation.FieldFault
	for _, fault := range faults {
		if fault.Lenient && u.loader.mode == ModeIgnore {
			continue
		}
		u.faultAt(at, object, fault)
		if !u.isWarning(fault) {
			fatal = append(fatal, fault)
		}
	}
	return fatal
}

func (u *unitLoad) isWarning(fault validation.FieldFault) bool {
	return fault.Warning || fault.Lenient && u.loader.mode != ModeStrict
}

func (u *unitLoad) faultAt(at location, object string, fault validation.FieldFault) {
	line := fault.Line
	if line == 0 {
		line = at.line(fault.Path)
	}
	u.fault(Fault{
		Line:    line,
		Object:  object,
		Path:    validation.JoinPath(at.path, fault.Path),
		Problem: fault.Problem,
		Remedy:  fault.Remedy,
		Warning: u.isWarning(fault),
	})
}

// objectName returns the name of a pod for faults; empty if it has no name.
func objectName(meta metav1.Object) string {
	if meta.GetName() == "" {
		return ""
	}
	return kindPod + " " + fullName(meta)
}

// fullName returns namespace/name, with an empty namespace defaulted.
func fullName(meta metav1.Object) string {
	namespace := meta.GetNamespace()
	if namespace == "" {
		namespace = v1.NamespaceDefault
	}
	return namespace + "/" + meta.GetName()
}
