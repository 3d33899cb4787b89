package oracle

import (
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// faultDifference is an error that only one side reports.
type faultDifference struct {
	reason string
	is     func(pod *v1.Pod, err *field.Error, theirs field.ErrorList) bool
}

var oursOnly = []faultDifference{
	{
		reason: "metadata: a uid is validated, since directories are named after it",
		is: func(_ *v1.Pod, err *field.Error, _ field.ErrorList) bool {
			return err.Field == "metadata.uid" && err.Type == field.ErrorTypeInvalid
		},
	},
	{
		reason: "ports: hostIP is validated, since the runtime would reject it",
		is: func(_ *v1.Pod, err *field.Error, _ field.ErrorList) bool {
			return strings.HasSuffix(err.Field, "].hostIP") && err.Type == field.ErrorTypeInvalid
		},
	},
	{
		reason: "volumes: an image volume needs a reference, as at the API server; the kubelet's options validate the pod " +
			"like a template",
		is: func(_ *v1.Pod, err *field.Error, _ field.ErrorList) bool {
			return strings.HasSuffix(err.Field, ".image.reference") && err.Type == field.ErrorTypeRequired
		},
	},
	{
		reason: "restart: the rules of an init container are also validated if its restartPolicy is missing",
		is: func(_ *v1.Pod, err *field.Error, theirs field.ErrorList) bool {
			container, _, ok := strings.Cut(err.Field, ".restartPolicyRules")
			return ok && strings.HasPrefix(container, "spec.initContainers") &&
				reports(theirs, container+".restartPolicy", field.ErrorTypeRequired)
		},
	},
	{
		reason: "volumes: a duplicate name is also reported if the first volume is invalid",
		is: func(pod *v1.Pod, err *field.Error, theirs field.ErrorList) bool {
			volume := volumeAt(err.Field)
			return volume > 0 && err.Type == field.ErrorTypeDuplicate &&
				slices.ContainsFunc(theirs, func(other *field.Error) bool {
					earlier := volumeAt(other.Field)
					return earlier >= 0 && earlier < volume && pod.Spec.Volumes[earlier].Name == pod.Spec.Volumes[volume].Name
				})
		},
	},
	{
		reason: "volumes: the resource of a downwardAPI item is also validated if its container is missing",
		is: func(_ *v1.Pod, err *field.Error, theirs field.ErrorList) bool {
			ref, ok := strings.CutSuffix(itemless.ReplaceAllString(err.Field, ".downwardAPI"), ".resource")
			return ok && reports(theirs, ref+".containerName", field.ErrorTypeRequired)
		},
	},
	{
		reason: "volumes: the type of an invalid volume is also checked when it is used as a device",
		is: func(pod *v1.Pod, err *field.Error, theirs field.ErrorList) bool {
			return strings.Contains(err.Field, ".volumeDevices[") && reports(theirs, err.Field, field.ErrorTypeNotFound)
		},
	},
	{
		reason: "mounts: a path is compared with all devices and mounts, including those with a duplicate name",
		is: func(_ *v1.Pod, err *field.Error, _ field.ErrorList) bool {
			return strings.Contains(err.Detail, "must not also be a path in")
		},
	},
	{
		reason: "dns: search domains are also validated if nameservers are missing",
		is: func(_ *v1.Pod, err *field.Error, theirs field.ErrorList) bool {
			return strings.HasPrefix(err.Field, "spec.dnsConfig.") &&
				reports(theirs, "spec.dnsConfig.nameservers", field.ErrorTypeRequired)
		},
	},
	severalTypes,
}

// severalTypes is on both sides: which of a volume's types counts as the extra
// one depends on the order in which they are checked.
var severalTypes = faultDifference{
	reason: "volumes: with several types, the two sides may disagree about which one is first",
	is: func(pod *v1.Pod, err *field.Error, _ field.ErrorList) bool {
		i := volumeAt(err.Field)
		if i < 0 {
			return false
		}
		types, source := 0, reflect.ValueOf(pod.Spec.Volumes[i].VolumeSource)
		for i := range source.NumField() {
			if !source.Field(i).IsNil() {
				types++
			}
		}
		return types > 1
	},
}

var (
	volumePath = regexp.MustCompile(`^spec\.volumes\[(\d+)\]`)
	itemless   = regexp.MustCompile(`\.downwardAPI\.items\[\d+\]`)
)

// volumeAt is the index of the volume that a path is in, or -1.
func volumeAt(path string) int {
	match := volumePath.FindStringSubmatch(path)
	if match == nil {
		return -1
	}
	i, _ := strconv.Atoi(match[1])
	return i
}

func reports(errs field.ErrorList, path string, kind field.ErrorType) bool {
	return slices.ContainsFunc(errs, func(err *field.Error) bool { return err.Field == path && err.Type == kind })
}

var theirsOnly = []faultDifference{
	severalTypes,
	{
		reason: "mounts: a volume that is declared but invalid is not missing",
		is: func(pod *v1.Pod, err *field.Error, _ field.ErrorList) bool {
			name, ok := err.BadValue.(string)
			return ok && err.Type == field.ErrorTypeNotFound && strings.Contains(err.Field, "].volume") &&
				slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.Name == name })
		},
	},
	{
		reason: "a missing required value is reported once and not validated as a value as well",
		is: func(_ *v1.Pod, err *field.Error, theirs field.ErrorList) bool {
			return err.Type != field.ErrorTypeRequired && reports(theirs, err.Field, field.ErrorTypeRequired)
		},
	},
	{
		reason: "ephemeral containers are rejected as a whole, so that errors inside them are not listed",
		is: func(pod *v1.Pod, err *field.Error, _ field.ErrorList) bool {
			// A hostProcess container among them affects the whole pod.
			ofPod := err.Field == "spec" || err.Field == "spec.hostNetwork"
			return strings.HasPrefix(err.Field, "spec.ephemeralContainers[") || ofPod && len(pod.Spec.EphemeralContainers) > 0
		},
	},
}

// defaultDifference is an intended difference in defaulting: apply changes
// upstream's defaulted pod accordingly.
type defaultDifference struct {
	reason string
	apply  func(ours, theirs *v1.Pod) bool
}

var defaultDifferences = []defaultDifference{
	{
		reason: "metadata: annotations that predate spec.initContainers are kept like any other; nothing reads them",
		apply: func(ours, theirs *v1.Pod) bool {
			kept := false
			for key, value := range ours.Annotations {
				switch key {
				case "pod.beta.kubernetes.io/init-containers", "pod.alpha.kubernetes.io/init-containers",
					"pod.beta.kubernetes.io/init-container-statuses", "pod.alpha.kubernetes.io/init-container-statuses":
					if theirs.Annotations == nil {
						theirs.Annotations = map[string]string{}
					}
					theirs.Annotations[key] = value
					kept = true
				}
			}
			return kept
		},
	},
}
