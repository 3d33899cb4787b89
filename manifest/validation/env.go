package validation

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// podFields are the fields of a pod that the downward API knows. Environment
// variables and files can each use some of them.
var (
	podFields = []string{
		"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid",
		"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.phase", "status.podIP", "status.podIPs",
	}
	envFields = []string{
		"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
	}
	fileFields = []string{
		"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid",
	}
)

// containerFields are the resources of a container that the downward API can
// use, in addition to hugepages, whose names contain a page size.
var containerFields = []string{
	"limits.cpu", "limits.ephemeral-storage", "limits.memory",
	"requests.cpu", "requests.ephemeral-storage", "requests.memory",
}

var (
	cpuDivisors  = []string{"1m", "1"}
	byteDivisors = []string{"1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"}
)

func (v *validator) env(path *field.Path, vars []v1.EnvVar) {
	for i, variable := range vars {
		at := path.Index(i)
		if v.requireSet(at.Child("name"), variable.Name, "an environment variable needs a name") {
			v.rules(at.Child("name"), variable.Name, utilvalidation.IsRelaxedEnvVarName(variable.Name))
		}
		if variable.ValueFrom != nil {
			v.envSource(at.Child("valueFrom"), variable.Value, variable.ValueFrom)
		}
	}
}

func (v *validator) envSource(path *field.Path, value string, source *v1.EnvVarSource) {
	sources := 0
	if ref := source.FieldRef; ref != nil {
		sources++
		v.fieldRef(path.Child("fieldRef"), ref, envFields)
	}
	if ref := source.ResourceFieldRef; ref != nil {
		sources++
		v.resourceFieldRef(path.Child("resourceFieldRef"), ref)
	}
	if ref := source.ConfigMapKeyRef; ref != nil {
		sources++
		v.keyRef(path.Child("configMapKeyRef"), ref.Name, ref.Key)
	}
	if ref := source.SecretKeyRef; ref != nil {
		sources++
		v.keyRef(path.Child("secretKeyRef"), ref.Name, ref.Key)
	}
	if ref := source.FileKeyRef; ref != nil {
		sources++
		v.fileKeyRef(path.Child("fileKeyRef"), ref)
	}
	switch {
	case sources == 0:
		v.invalid(path, nil, "must have one of fieldRef, resourceFieldRef, configMapKeyRef, secretKeyRef, fileKeyRef")
	case value != "":
		v.invalid(path, nil, "must not be set together with value; keep one of them")
	case sources > 1:
		v.invalid(path, nil, "must have one source only")
	}
}

func (v *validator) envFrom(path *field.Path, sources []v1.EnvFromSource) {
	for i, source := range sources {
		at := path.Index(i)
		if source.Prefix != "" {
			v.rules(at.Child("prefix"), source.Prefix, utilvalidation.IsRelaxedEnvVarName(source.Prefix))
		}
		if ref := source.ConfigMapRef; ref != nil {
			v.objectRef(at.Child("configMapRef", "name"), ref.Name)
		}
		if ref := source.SecretRef; ref != nil {
			v.objectRef(at.Child("secretRef", "name"), ref.Name)
		}
		switch {
		case source.ConfigMapRef == nil && source.SecretRef == nil:
			v.invalid(at, nil, "must have one of configMapRef, secretRef")
		case source.ConfigMapRef != nil && source.SecretRef != nil:
			v.invalid(at, nil, "must have one of configMapRef, secretRef, not both")
		}
	}
}

// objectRef validates the name of a ConfigMap or Secret. As in the API server,
// a reference may end in a dash although the name of the object may not.
func (v *validator) objectRef(path *field.Path, name string) {
	if v.requireSet(path, name, "must be the name of the object") {
		v.rules(path, name, validation.NameIsDNSSubdomain(name, true))
	}
}

func (v *validator) keyRef(path *field.Path, name, key string) {
	if v.requireSet(path.Child("name"), name, "must be the name of the object") {
		v.dnsSubdomain(path.Child("name"), name)
	}
	if v.requireSet(path.Child("key"), key, "must be a key of the object's data") {
		v.rules(path.Child("key"), key, utilvalidation.IsConfigMapKey(key))
	}
}

func (v *validator) fileKeyRef(path *field.Path, ref *v1.FileKeySelector) {
	if v.requireSet(path.Child("key"), ref.Key, "must be the name of a variable in the file") {
		v.rules(path.Child("key"), ref.Key, utilvalidation.IsRelaxedEnvVarName(ref.Key))
	}
	at := path.Child("volumeName")
	const declared = "must be the name of an emptyDir volume in spec.volumes"
	if v.requireSet(at, ref.VolumeName, declared) {
		v.dnsLabel(at, ref.VolumeName)
		if source := v.volumes[ref.VolumeName]; source == nil {
			v.notFound(at, ref.VolumeName, declared)
		} else if source.EmptyDir == nil {
			v.invalid(at, ref.VolumeName, declared)
		}
	}
	if v.requireSet(path.Child("path"), ref.Path, "must be the file's path in the volume") {
		v.noParentRefs(path.Child("path"), ref.Path)
	}
}

// fieldRef validates a reference to a field of the pod: name, or name['key']
// for one label or annotation.
func (v *validator) fieldRef(path *field.Path, ref *v1.ObjectFieldSelector, allowed []string) {
	if !v.requireSet(path.Child("apiVersion"), ref.APIVersion, "must be v1") {
		return
	}
	at := path.Child("fieldPath")
	if !v.requireSet(at, ref.FieldPath, "must be one of "+quotedList(allowed)) {
		return
	}
	name := ref.FieldPath
	if name == "spec.host" { // how the first clients spelled it
		name = "spec.nodeName"
	}
	base, key, subscripted := splitSubscript(name)
	switch {
	case ref.APIVersion != "v1":
		v.invalid(at, ref.FieldPath, "must be a field of the pod in apiVersion v1, not "+ref.APIVersion)
	case subscripted && base == "metadata.annotations":
		v.rules(at, ref.FieldPath, utilvalidation.IsQualifiedName(strings.ToLower(key)))
	case subscripted && base == "metadata.labels":
		v.rules(at, ref.FieldPath, utilvalidation.IsQualifiedName(key))
	case subscripted:
		v.invalid(at, ref.FieldPath, "only metadata.labels and metadata.annotations can have a key in brackets")
	case !slices.Contains(podFields, name):
		v.invalid(at, ref.FieldPath, "must be one of "+quotedList(allowed)+
			", or a label or annotation such as metadata.labels['app']")
	case !slices.Contains(allowed, name):
		v.add(field.NotSupported(at, ref.FieldPath, allowed))
	}
}

// splitSubscript splits metadata.labels['app'] into its parts.
func splitSubscript(path string) (base, key string, ok bool) {
	rest, ok := strings.CutSuffix(path, "']")
	if !ok {
		return path, "", false
	}
	base, key, ok = strings.Cut(rest, "['")
	if !ok || base == "" {
		return path, "", false
	}
	return base, key, true
}

func (v *validator) resourceFieldRef(path *field.Path, ref *v1.ResourceFieldSelector) {
	if v.requireSet(path.Child("resource"), ref.Resource, "must be one of "+quotedList(containerFields)) &&
		!slices.Contains(containerFields, ref.Resource) && !isHugePagesField(ref.Resource) {
		v.add(field.NotSupported(path.Child("resource"), ref.Resource, containerFields))
	}
	v.divisor(path.Child("divisor"), ref)
}

func isHugePagesField(name string) bool {
	return strings.HasPrefix(name, "limits."+v1.ResourceHugePagesPrefix) ||
		strings.HasPrefix(name, "requests."+v1.ResourceHugePagesPrefix)
}

func (v *validator) divisor(path *field.Path, ref *v1.ResourceFieldSelector) {
	if ref.Divisor.Cmp(resource.Quantity{}) == 0 {
		return
	}
	divisors := byteDivisors
	switch {
	case ref.Resource == "limits.cpu" || ref.Resource == "requests.cpu":
		divisors = cpuDivisors
	case !slices.Contains(containerFields, ref.Resource) && !isHugePagesField(ref.Resource):
		return
	}
	if divisor := ref.Divisor; !slices.Contains(divisors, divisor.String()) {
		v.invalid(path, divisor.String(), "must be one of "+quotedList(divisors))
	}
}
