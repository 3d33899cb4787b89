package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// pod loads one pod: it is the one that is known, or is decoded, defaulted,
// judged and given its identity.
func (u *unitLoad) pod(value map[string]any, at place) {
	twice := duplicateKeys(at.tree, "", nil)
	digest := documentDigest(value, twice)
	if u.req.Known != nil {
		// A pod of another node name was known before the name was changed.
		if pod, ok := u.req.Known(digest); ok && pod.Spec.NodeName == u.loader.node {
			u.doubt(pod, at)
			u.accept(Document{Digest: digest, Pod: pod}, at)
			return
		}
	}
	s := &shape{place: at}
	for _, key := range twice {
		s.faults = append(s.faults, key.fault(at))
	}
	s.visit(value, reflect.TypeFor[v1.Pod](), "", nil)

	pod := &v1.Pod{}
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, pod)
	}
	if err != nil {
		s.faults = append(s.faults, fieldFault{problem: "cannot be decoded: " + err.Error()})
	}
	object := objectName(pod)
	fatal := u.faultsAt(at, object, s.faults)

	SetDefaults(pod)
	judged := withoutConsequences(u.loader.judge(pod), fatal)
	for _, fault := range judged {
		u.faultAt(at, object, fault)
	}
	u.loader.identify(pod, u.req.Source)
	if len(fatal)+len(judged) == 0 {
		u.doubt(pod, at)
	}
	u.accept(Document{Digest: digest, Pod: pod}, at)
}

// doubt warns of what cannot work in a pod that is right otherwise.
func (u *unitLoad) doubt(pod *v1.Pod, at place) {
	meta := pod.ObjectMeta
	meta.Name = BaseName(pod)
	for _, fault := range doubts(pod) {
		u.faultAt(at, objectName(&meta), fault)
	}
}

// accept takes a document in unless the unit has another pod of that name or
// UID. Whether the unit as a whole is accepted turns out at the end.
func (u *unitLoad) accept(document Document, at place) {
	pod := document.Pod
	meta := pod.ObjectMeta
	meta.Name = BaseName(pod)
	object := objectName(&meta)
	if name := fullName(&meta); meta.Name != "" {
		if first, twice := u.names[name]; twice {
			u.faultAt(at, object, fieldFault{path: "metadata.name", problem: "another pod of this namespace and name is in the same unit",
				remedy: fmt.Sprintf("rename one of them; the first is on line %d", first)})
			return
		}
		u.names[name] = at.line("metadata.name")
	}
	if first, twice := u.uids[string(pod.UID)]; twice && meta.Name != "" {
		u.faultAt(at, object, fieldFault{path: "metadata.uid", problem: "another pod in the same unit has the uid " + quote(string(pod.UID)),
			remedy: fmt.Sprintf("change or take out one of them; the first is on line %d", first)})
		return
	}
	u.uids[string(pod.UID)] = at.line("metadata.uid")
	u.documents = append(u.documents, document)
}

// documentDigest is the sha256 of a document as it was decoded, and of the
// fields that were there twice: to make one double is to edit the document.
func documentDigest(value map[string]any, twice []duplicateKey) string {
	text, err := json.Marshal(value)
	if err != nil {
		// A value that JSON was decoded into can be encoded.
		panic(err)
	}
	buffer := bytes.NewBuffer(text)
	for _, key := range twice {
		buffer.WriteString("\n" + key.path)
	}
	return Digest(buffer.Bytes())
}

// judge is all that is wrong with a defaulted pod.
func (l *Loader) judge(pod *v1.Pod) []fieldFault {
	var faults []fieldFault
	unsupported := Unsupported(pod)
	for _, err := range unsupported {
		faults = append(faults, judgedFault(err))
	}
	nameFaulty := false
	errs := Validate(pod)
	for _, err := range errs {
		if err.Field == "metadata.name" {
			nameFaulty = true
			if pod.Name == "" {
				continue
			}
		}
		if !coveredBy(err.Field, unsupported) && !isRequestOfLimit(err, errs) {
			faults = append(faults, judgedFault(err))
		}
	}
	if pod.Name == "" {
		// Other than the API server, a node makes no name out of generateName.
		faults = append(faults, fieldFault{path: "metadata.name", problem: "is missing", remedy: "must be the pod's name, such as web"})
	} else if !nameFaulty {
		faults = append(faults, l.judgeSuffix(pod.Name)...)
	}
	return faults
}

// judgeSuffix judges the name that the pod will have.
func (l *Loader) judgeSuffix(name string) []fieldFault {
	suffix := nodeSuffix(l.node)
	if most := validation.DNS1123SubdomainMaxLength - len(suffix); len(name) > most {
		return []fieldFault{{path: "metadata.name", problem: fmt.Sprintf("is %d characters long", len(name)),
			remedy: fmt.Sprintf("must be %d at most, since %q is appended", most, suffix)}}
	}
	if rules := validation.IsDNS1123Subdomain(name + suffix); len(rules) > 0 {
		return []fieldFault{{path: "metadata.name", problem: quote(name+suffix) + ", the name with that of the node, is not valid",
			remedy: withoutPattern(strings.Join(rules, "; "))}}
	}
	return nil
}

// coveredBy tells a field at or below one that is refused as a whole.
func coveredBy(path string, refused field.ErrorList) bool {
	for _, err := range refused {
		if isWithin(path, err.Field) {
			return true
		}
	}
	return false
}

// isRequestOfLimit tells a fault of a request that its limit has as well: the
// one became the other by defaulting.
func isRequestOfLimit(err *field.Error, errs field.ErrorList) bool {
	before, key, ok := strings.Cut(err.Field, ".requests[")
	return ok && slices.ContainsFunc(errs, func(other *field.Error) bool {
		return other.Field == before+".limits["+key && other.Type == err.Type && other.Detail == err.Detail && other.BadValue == err.BadValue
	})
}

// isWithin reports whether a path is, or lies below, another.
func isWithin(path, outer string) bool {
	rest, ok := strings.CutPrefix(path, outer)
	return ok && (rest == "" || outer == "" || rest[0] == '.' || rest[0] == '[')
}

// withoutConsequences leaves out faults that come of others: what was
// misspelled is missing, and what it would have declared is not found.
func withoutConsequences(judged, causes []fieldFault) []fieldFault {
	var faults []fieldFault
	for _, fault := range judged {
		if !isConsequence(fault, causes) {
			faults = append(faults, fault)
		}
	}
	return faults
}

func isConsequence(fault fieldFault, causes []fieldFault) bool {
	for _, cause := range causes {
		switch {
		case isWithin(fault.path, cause.path),
			cause.meant != "" && isWithin(fault.path, cause.meant),
			fault.kind == field.ErrorTypeRequired && isWithin(cause.path, fault.path),
			fault.kind == field.ErrorTypeNotFound && !isInContainer(cause.path):
			return true
		}
	}
	return false
}

// isInContainer tells a field of a container, which declares nothing that
// another field refers to.
func isInContainer(path string) bool {
	return strings.HasPrefix(path, "spec.containers[") || strings.HasPrefix(path, "spec.initContainers[")
}

// judgedFault words an error of the rules. Its detail says what would be right.
func judgedFault(err *field.Error) fieldFault {
	fault := fieldFault{path: err.Field, kind: err.Type, remedy: withoutPattern(err.Detail)}
	value := badValue(err.BadValue)
	switch err.Type {
	case field.ErrorTypeRequired:
		fault.problem = "is missing"
	case field.ErrorTypeForbidden:
		fault.problem, fault.remedy = splitDetail(withoutPattern(err.Detail))
	case field.ErrorTypeNotFound:
		fault.problem = value + " is not declared"
	case field.ErrorTypeDuplicate:
		fault.problem = value + " is there twice"
	case field.ErrorTypeNotSupported:
		fault.problem = value + " is not supported"
	case field.ErrorTypeInvalid, field.ErrorTypeTypeInvalid:
		fault.problem = value + " is not valid"
	case field.ErrorTypeTooLong:
		fault.problem = "is too long"
	case field.ErrorTypeTooMany:
		fault.problem = "has too many items"
	default:
		fault.problem, fault.remedy = err.ErrorBody(), ""
	}
	fault.problem = strings.TrimSpace(fault.problem)
	return fault
}

// withoutPattern takes the regular expression out of a rule of apimachinery,
// whose words and examples say the same.
func withoutPattern(rule string) string {
	words, rest, found := strings.Cut(rule, ", regex used for validation is '")
	if !found {
		return rule
	}
	_, more, _ := strings.Cut(rest, "')")
	return strings.ReplaceAll(words, ",  or", ", or") + ")" + withoutPattern(more)
}

// splitDetail takes the problem and the remedy of a detail apart.
func splitDetail(detail string) (problem, remedy string) {
	problem, remedy, _ = strings.Cut(detail, "; ")
	return problem, remedy
}

// badValue quotes a value as its author knows it; empty for one that is not
// a plain value.
func badValue(value any) string {
	v := reflect.ValueOf(value)
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if stringer, ok := value.(fmt.Stringer); ok && v.Kind() == reflect.Struct {
		return quote(stringer.String())
	}
	switch v.Kind() {
	case reflect.String:
		return quote(v.String())
	case reflect.Bool, reflect.Int, reflect.Int32, reflect.Int64:
		return fmt.Sprint(v.Interface())
	}
	return ""
}
