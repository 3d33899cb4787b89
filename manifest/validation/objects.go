package validation

import (
	"encoding/json"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// maxObjectData is the API server's limit on the data of a ConfigMap or
	// Secret, in bytes.
	maxObjectData = 1 << 20
	// maxUserPriority is the highest value of a class that is not built in.
	maxUserPriority = 1_000_000_000
	systemPrefix    = "system-"
)

// SetObjectDefaults fills in the API defaults of an object that CheckObject
// knows. A Secret's stringData is moved into its data and replaces equal keys.
func SetObjectDefaults(object metav1.Object) {
	switch object := object.(type) {
	case *v1.Secret:
		setDefault(&object.Type, v1.SecretTypeOpaque)
		if len(object.StringData) > 0 && object.Data == nil {
			object.Data = make(map[string][]byte, len(object.StringData))
		}
		for key, text := range object.StringData {
			object.Data[key] = []byte(text)
		}
		object.StringData = nil
	case *v1.PersistentVolumeClaim:
		setDefaultPtr(&object.Spec.VolumeMode, v1.PersistentVolumeFilesystem)
	case *v1.Service:
		setServiceDefaults(&object.Spec)
	case *v1.PersistentVolume:
		setVolumeDefaults(object)
	case *storagev1.StorageClass:
		setDefaultPtr(&object.ReclaimPolicy, v1.PersistentVolumeReclaimRetain)
	case *schedulingv1.PriorityClass:
		setDefaultPtr(&object.PreemptionPolicy, v1.PreemptLowerPriority)
	}
}

// validateObject returns the errors of a defaulted object.
func validateObject(kind string, object metav1.Object) field.ErrorList {
	v := &validator{spec: &v1.PodSpec{}, volumes: map[string]*v1.VolumeSource{}}
	v.objectMeta(kind, object)
	switch object := object.(type) {
	case *v1.ConfigMap:
		v.configMap(object)
	case *v1.Secret:
		v.secret(object)
	case *v1.PersistentVolumeClaim:
		v.claimSpec(field.NewPath("spec"), &object.Spec)
	case *v1.Service:
		v.service(object)
	case *schedulingv1.PriorityClass:
		v.priorityClass(object)
	case *nodev1.RuntimeClass:
		v.runtimeClass(object)
	case *v1.PersistentVolume:
		v.persistentVolume(object)
	case *storagev1.StorageClass:
		v.storageClass(object)
	}
	return append(v.errs, invalidManifestRevision(object)...)
}

// isClusterScoped reports whether objects of this type have no namespace.
func isClusterScoped(object metav1.Object) bool {
	switch object.(type) {
	case *schedulingv1.PriorityClass, *nodev1.RuntimeClass, *v1.PersistentVolume, *storagev1.StorageClass:
		return true
	}
	return false
}

func (v *validator) objectMeta(kind string, meta metav1.Object) {
	path := field.NewPath("metadata")
	if meta.GetName() == "" {
		v.required(path.Child("name"), "must be the name by which pods refer to the "+kind)
	} else {
		v.dnsSubdomain(path.Child("name"), meta.GetName())
	}
	switch namespace := meta.GetNamespace(); {
	case namespace == "":
	case isClusterScoped(meta):
		v.forbidden(path.Child("namespace"), "a "+kind+" has no namespace; remove it")
	default:
		v.rules(path.Child("namespace"), namespace, validation.ValidateNamespaceName(namespace, false))
	}
	v.labels(path.Child("labels"), meta.GetLabels())
	v.annotationKeys(path.Child("annotations"), meta.GetAnnotations())
}

func (v *validator) configMap(configMap *v1.ConfigMap) {
	size := 0
	for key, text := range sortedMap(configMap.Data) {
		at := field.NewPath("data").Key(key)
		v.rules(at, key, utilvalidation.IsConfigMapKey(key))
		if _, twice := configMap.BinaryData[key]; twice {
			v.invalid(at, key, "must not also be in binaryData")
		}
		size += len(text)
	}
	for key, bytes := range sortedMap(configMap.BinaryData) {
		v.rules(field.NewPath("binaryData").Key(key), key, utilvalidation.IsConfigMapKey(key))
		size += len(bytes)
	}
	v.dataSize(size)
}

func (v *validator) dataSize(size int) {
	if size > maxObjectData {
		v.invalid(field.NewPath("data"), nil,
			fmt.Sprintf("must be at most 1 MiB (%d bytes) in total; it is %d bytes", maxObjectData, size))
	}
}

func (v *validator) secret(secret *v1.Secret) {
	size, position := 0, 0
	data := field.NewPath("data")
	for key, bytes := range sortedMap(secret.Data) {
		position++
		for _, message := range utilvalidation.IsConfigMapKey(key) {
			// What is no key may be a value in the wrong place, and readers must not see it.
			v.invalid(data, nil, fmt.Sprintf("key %d of %d, in alphabetical order, is invalid (it is not shown): %s", position,
				len(secret.Data), message))
		}
		size += len(bytes)
	}
	v.dataSize(size)
	needs := func(keys ...string) {
		for _, key := range keys {
			if _, ok := secret.Data[key]; !ok {
				v.required(data.Key(key), "a Secret of type "+string(secret.Type)+" needs it")
			}
		}
	}
	switch secret.Type {
	case v1.SecretTypeServiceAccountToken:
		if secret.Annotations[v1.ServiceAccountNameKey] == "" {
			v.required(field.NewPath("metadata", "annotations").Key(v1.ServiceAccountNameKey),
				"a Secret of type "+string(secret.Type)+" needs it")
		}
	case v1.SecretTypeDockercfg:
		v.secretJSON(secret, v1.DockerConfigKey)
	case v1.SecretTypeDockerConfigJson:
		v.secretJSON(secret, v1.DockerConfigJsonKey)
	case v1.SecretTypeBasicAuth:
		_, user := secret.Data[v1.BasicAuthUsernameKey]
		_, password := secret.Data[v1.BasicAuthPasswordKey]
		if !user && !password {
			needs(v1.BasicAuthUsernameKey, v1.BasicAuthPasswordKey)
		}
	case v1.SecretTypeSSHAuth:
		if len(secret.Data[v1.SSHAuthPrivateKey]) == 0 {
			v.required(data.Key(v1.SSHAuthPrivateKey), "a Secret of type "+string(secret.Type)+" needs it")
		}
	case v1.SecretTypeTLS:
		needs(v1.TLSCertKey, v1.TLSPrivateKeyKey)
	}
}

// secretJSON validates the credentials of registries.
func (v *validator) secretJSON(secret *v1.Secret, key string) {
	at := field.NewPath("data").Key(key)
	text, ok := secret.Data[key]
	if !ok {
		v.required(at, "a Secret of type "+string(secret.Type)+" needs it")
		return
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(text, &object) != nil {
		v.invalid(at, nil, "must be a JSON object as written by docker login")
	}
}

func (v *validator) priorityClass(class *schedulingv1.PriorityClass) {
	known := map[string]int32{"system-cluster-critical": 2 * maxUserPriority,
		"system-node-critical": 2*maxUserPriority + 1000}
	if strings.HasPrefix(class.Name, systemPrefix) {
		value, ok := known[class.Name]
		switch {
		case !ok:
			v.forbidden(field.NewPath("metadata", "name"),
				"names that begin with system- are reserved for built-in classes; choose another name")
		case class.Value != value:
			v.forbidden(field.NewPath("value"),
				fmt.Sprintf("the value of this built-in class is %d; remove the document, since the class is predefined", value))
		case class.GlobalDefault:
			v.forbidden(field.NewPath("globalDefault"), "a built-in class cannot be the default; remove the field")
		}
	} else if class.Value > maxUserPriority {
		v.forbidden(field.NewPath("value"),
			fmt.Sprintf("%d is too high; must be at most %d, since higher values are reserved for built-in classes", class.Value,
				maxUserPriority))
	}
	optionalOneOf(v, field.NewPath("preemptionPolicy"), class.PreemptionPolicy, v1.PreemptNever, v1.PreemptLowerPriority)
}

func (v *validator) runtimeClass(class *nodev1.RuntimeClass) {
	if v.requireSet(field.NewPath("handler"), class.Handler,
		"must be the name of a handler in the runtime's configuration, such as runc") {
		v.dnsLabel(field.NewPath("handler"), class.Handler)
	}
	if class.Overhead != nil {
		at := field.NewPath("overhead", "podFixed")
		for name, quantity := range sortedMap(class.Overhead.PodFixed) {
			if quantity.Sign() < 0 {
				v.invalid(at.Key(string(name)), quantity.String(), "must be 0 or more")
			}
		}
	}
	if class.Scheduling != nil {
		at := field.NewPath("scheduling")
		v.labels(at.Child("nodeSelector"), class.Scheduling.NodeSelector)
		v.tolerations(at.Child("tolerations"), class.Scheduling.Tolerations)
	}
}
