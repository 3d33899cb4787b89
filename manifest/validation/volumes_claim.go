package validation

import (
	"reflect"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// claimTemplate validates the claim that an ephemeral volume creates.
func (v *validator) claimTemplate(path *field.Path, template *v1.PersistentVolumeClaimTemplate) {
	meta := path.Child("metadata")
	v.annotationKeys(meta.Child("annotations"), template.Annotations)
	v.labels(meta.Child("labels"), template.Labels)
	for name := range sortedMap(setFields(template.ObjectMeta)) {
		if name != "annotations" && name != "labels" {
			v.forbidden(meta.Child(name), "only labels and annotations can be set in the metadata of the claim")
		}
	}
	v.claimSpec(path.Child("spec"), &template.Spec)
}

// setFields returns the JSON names of the metadata fields that are not zero.
func setFields(meta metav1.ObjectMeta) map[string]bool {
	set := map[string]bool{}
	value := reflect.ValueOf(meta)
	for i := range value.NumField() {
		if !value.Field(i).IsZero() {
			set[jsonName(value.Type().Field(i))] = true
		}
	}
	return set
}

func (v *validator) claimSpec(path *field.Path, claim *v1.PersistentVolumeClaimSpec) {
	v.accessModes(path.Child("accessModes"), claim.AccessModes)
	v.labelSelector(path.Child("selector"), claim.Selector)
	at := path.Child("resources", "requests").Key(string(v1.ResourceStorage))
	if size, ok := claim.Resources.Requests[v1.ResourceStorage]; !ok {
		v.required(at, "must be the size of the volume, such as 1Gi")
	} else if size.Sign() <= 0 {
		v.invalid(at, size.String(), "must be more than 0")
	}
	for name, class := range sortedMap(map[string]*string{
		"storageClassName":          claim.StorageClassName,
		"volumeAttributesClassName": claim.VolumeAttributesClassName,
	}) {
		if class != nil && *class != "" {
			v.dnsSubdomain(path.Child(name), *class)
		}
	}
	optionalOneOf(v, path.Child("volumeMode"), claim.VolumeMode, v1.PersistentVolumeBlock, v1.PersistentVolumeFilesystem)
	v.dataSources(path, claim)
}

// dataSources validates what a new volume is filled from. The two fields must
// be equal; only the newer one can name another namespace.
func (v *validator) dataSources(path *field.Path, claim *v1.PersistentVolumeClaimSpec) {
	source, ref := claim.DataSource, claim.DataSourceRef
	if source != nil {
		v.dataSource(path.Child("dataSource"), *source)
	}
	if ref == nil {
		return
	}
	same := v1.TypedLocalObjectReference{APIGroup: ref.APIGroup, Kind: ref.Kind, Name: ref.Name}
	v.dataSource(path.Child("dataSourceRef"), same)
	elsewhere := ref.Namespace != nil && *ref.Namespace != ""
	if elsewhere {
		v.rules(path.Child("dataSourceRef", "namespace"), *ref.Namespace,
			validation.ValidateNamespaceName(*ref.Namespace, false))
	}
	switch {
	case source == nil:
	case elsewhere:
		v.invalid(path.Child("dataSource"), source.Name, "must be omitted when dataSourceRef has a namespace")
	case !reflect.DeepEqual(*source, same):
		v.invalid(path.Child("dataSource"), source.Name, "must be equal to dataSourceRef")
	}
}

func (v *validator) dataSource(path *field.Path, source v1.TypedLocalObjectReference) {
	v.requireSet(path.Child("name"), source.Name, "must be the name of the object to fill the volume from")
	v.requireSet(path.Child("kind"), source.Kind, "must be the kind of that object, such as VolumeSnapshot")
	if source.APIGroup != nil && *source.APIGroup != "" {
		v.rules(path.Child("apiGroup"), *source.APIGroup, utilvalidation.IsDNS1123Subdomain(*source.APIGroup))
	} else if source.Kind != "PersistentVolumeClaim" {
		v.invalid(path, source.Kind, "must be PersistentVolumeClaim if it has no apiGroup")
	}
}

// ObjectWarnings returns the fields of an object next to the pods that have no effect
// on this node, or that keep pods from using it. They are warnings, so that objects can
// be taken from a cluster; a pod that uses such a claim does not start.
// The size is not among them: whether it is enforced depends on the file system.
func ObjectWarnings(object metav1.Object) []FieldFault {
	switch object := object.(type) {
	case *v1.Service:
		return serviceWarnings(&object.Spec)
	case *v1.PersistentVolume:
		return volumeWarnings(&object.Spec)
	case *storagev1.StorageClass:
		return classWarnings(object)
	case *v1.PersistentVolumeClaim:
		return claimWarnings(&object.Spec)
	}
	return nil
}

func claimWarnings(spec *v1.PersistentVolumeClaimSpec) []FieldFault {
	const (
		noEffect = "has no effect: the size of a claim is what it requests"
		noPod    = "needs a storage driver: pods that use the claim do not start"
		remove   = "remove the field"
		fill     = "remove the field and copy the data into the claim's directory"
	)
	return fieldsWithoutEffect("spec.", []setField{
		{spec.VolumeAttributesClassName != nil && *spec.VolumeAttributesClassName != "", "volumeAttributesClassName",
			"has no effect", remove},
		{len(spec.Resources.Limits) > 0, "resources.limits", noEffect, remove},
		{spec.DataSource != nil, "dataSource", noPod, fill},
		{spec.DataSourceRef != nil, "dataSourceRef", noPod, fill},
	})
}
