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

// pathDifference is a fault that both report, ours at the field's exact path
// so that its line in the manifest can be found.
type pathDifference struct {
	reason string
	ours   *regexp.Regexp
	// detail, a regular expression, and kind narrow down our faults.
	detail string
	kind   field.ErrorType
	// theirs is the replacement of ours, theirKind of the type if that differs.
	theirs    string
	theirKind field.ErrorType
}

// move is a fault of ours as upstream reports it, or nil if the difference is
// about something else.
func (d *pathDifference) move(err *field.Error) *field.Error {
	if !d.ours.MatchString(err.Field) || d.kind != "" && d.kind != err.Type {
		return nil
	}
	if d.detail != "" && !regexp.MustCompile(d.detail).MatchString(err.Detail) {
		return nil
	}
	moved := *err
	moved.Field = d.ours.ReplaceAllString(err.Field, d.theirs)
	if d.theirKind != "" {
		moved.Type = d.theirKind
	}
	return &moved
}

func at(expression string) *regexp.Regexp { return regexp.MustCompile("^" + expression + "$") }

var pathDifferences = []pathDifference{
	{
		reason: "volumes: a bad key in brackets in a downwardAPI item is reported at the fieldPath of the item",
		ours:   at(`(spec\.volumes\[\d+\]\.(?:projected\.sources\[\d+\]\.)?downwardAPI)\.items\[\d+\](\.fieldRef)\.fieldPath`),
		detail: "name part",
		theirs: "${1}${2}",
	},
	{
		reason: "metadata: annotations that were settings are named by their key in brackets, like all others",
		ours:   at(`(metadata\.annotations)\[((?:container\.)?seccomp\.security\.alpha\.kubernetes\.io/[^\]]*)\]`),
		theirs: "${1}.${2}",
	},
	{
		reason: "metadata: tolerations in an annotation are named by its key in brackets",
		ours:   at(`(metadata\.annotations)\[(scheduler\.alpha\.kubernetes\.io/tolerations)\](\[\d+\])\.(key|effect|operator)`),
		theirs: "${1}.${2}${3}.${4}",
	},
	{
		reason: "metadata: a value of such a toleration is reported at the value",
		ours:   at(`(metadata\.annotations)\[(scheduler\.alpha\.kubernetes\.io/tolerations)\](\[\d+\])\.value`),
		theirs: "${1}.${2}${3}.operator",
	},
	{
		reason: "metadata: tolerations that cannot be read are reported at their annotation",
		ours:   at(`(metadata\.annotations)\[scheduler\.alpha\.kubernetes\.io/tolerations\]`),
		theirs: "${1}",
	},
	{
		reason: "env: the item of envFrom is named by its index",
		ours:   at(`(spec\.(?:initC|c)ontainers\[\d+\])\.envFrom\[\d+\]`),
		kind:   field.ErrorTypeInvalid,
		theirs: "${1}.envFrom",
	},
	{
		reason: "env: a bad key in brackets is reported at the fieldPath",
		ours:   at(`(.*\.fieldRef)\.fieldPath`),
		detail: "name part",
		theirs: "${1}",
	},
	{
		reason: "mounts: the mount is named by its index",
		ours:   at(`(spec\.(?:initC|c)ontainers\[\d+\]\.volumeMounts)\[\d+\]\.(subPath|mountPropagation|recursiveReadOnly)`),
		theirs: "${1}.${2}",
	},
	{
		reason: "mounts: so is that of a bad subPathExpr",
		ours:   at(`(spec\.(?:initC|c)ontainers\[\d+\]\.volumeMounts)\[\d+\]\.(subPathExpr)`),
		detail: "must be a relative path|must not contain",
		theirs: "${1}.${2}",
	},
	{
		reason: "probes: a header is named by its index",
		ours:   at(`(.*\.httpGet\.httpHeaders)\[\d+\]\.name`),
		theirs: "${1}",
	},
	{
		reason: "resources: a request above its limit is named by its resource",
		ours:   at(`(.*resources\.requests)\[.*\]`),
		detail: "the limit, ",
		theirs: "${1}",
	},
	{
		reason: "resources: a container's limit above the pod's is reported at the container's",
		ours:   at(`spec\.containers(\[\d+\])\.resources\.limits(\[.*\])`),
		detail: "must be at most the pod's limit",
		theirs: "spec.resources.containers${1}${2}.limits",
	},
	{
		reason:    "resources: any name that spec.resources cannot hold is not supported, whether Kubernetes knows it or not",
		ours:      at(`(spec\.resources\.(?:limits|requests)\[.*\])`),
		kind:      field.ErrorTypeNotSupported,
		theirs:    "${1}",
		theirKind: field.ErrorTypeInvalid,
	},
	{
		reason: "resources: overhead has no limits in its path",
		ours:   at(`spec\.overhead(\[.*\])`),
		theirs: "spec.overhead.limits${1}",
	},
	{
		reason: "resize: the item of resizePolicy is named by its index",
		ours:   at(`(spec\.(?:initC|c)ontainers\[\d+\]\.resizePolicy)\[\d+\]\.resourceName`),
		theirs: "${1}",
	},
	{
		reason: "resize: so is that of its restartPolicy",
		ours:   at(`(spec\.(?:initC|c)ontainers\[\d+\]\.resizePolicy)\[\d+\]\.restartPolicy`),
		detail: "^supported values|must be one of|in a pod with",
		theirs: "${1}",
	},
	{
		reason: "ports: a host port that an init container takes twice is reported at that container, not always at the first",
		ours:   at(`spec\.initContainers\[\d+\](\.ports\[\d+\]\.hostPort)`),
		kind:   field.ErrorTypeDuplicate,
		theirs: "spec.initContainers[0]${1}",
	},
	{
		reason: "security: a contradiction is reported at allowPrivilegeEscalation, not at the whole securityContext",
		ours:   at(`(spec\.(?:initC|c)ontainers\[\d+\]\.securityContext)\.allowPrivilegeEscalation`),
		detail: "must not be false",
		theirs: "${1}",
	},
	{
		reason: "security: hostPID and hostIPC are spelled as in the manifest",
		ours:   at(`spec\.h(ostPID|ostIPC)`),
		detail: "hostUsers: false",
		theirs: "spec.H${1}",
	},
	{
		reason: "security: shareProcessNamespace is a field of the spec",
		ours:   at(`spec\.shareProcessNamespace`),
		detail: "hostPID",
		theirs: "spec.securityContext.shareProcessNamespace",
	},
	{
		reason: "os: an unknown system is reported at its name",
		ours:   at(`spec\.os\.name`),
		kind:   field.ErrorTypeNotSupported,
		theirs: "spec.os",
	},
	{
		reason: "dns: an option without a name is reported at the name",
		ours:   at(`(spec\.dnsConfig\.options\[\d+\])\.name`),
		theirs: "${1}",
	},
	{
		reason: "scheduling: a toleration's value is reported at the value",
		ours:   at(`(spec\.tolerations\[\d+\])\.value`),
		theirs: "${1}.operator",
	},
	{
		reason: "scheduling: gates of a pod that has its node are reported at the gates, since the manifest sets no node",
		ours:   at(`spec\.schedulingGates`),
		theirs: "spec.nodeName",
	},
	{
		reason: "scheduling: a gate is reported at its name",
		ours:   at(`(spec\.schedulingGates\[\d+\])\.name`),
		theirs: "${1}",
	},
	{
		reason: "scheduling: a repeated constraint is reported at the constraint",
		ours:   at(`(spec\.topologySpreadConstraints\[\d+\])`),
		detail: "may be there once",
		theirs: "${1}.{topologyKey, whenUnsatisfiable}",
	},
	{
		reason: "scheduling: a key that is selected twice is named by its list",
		ours:   at(`(.*)\.matchLabelKeys(\[\d+\])`),
		detail: "must not be in labelSelector as well",
		theirs: "${1}${2}",
	},
	{
		reason: "scheduling: a namespace is named by its index",
		ours:   at(`(.*)\.namespaces\[\d+\]`),
		theirs: "${1}.namespace",
	},
	{
		reason: "claims: a mirror pod's claims are reported where they are",
		ours:   at(`spec\.resourceClaims\[\d+\]`),
		detail: "a static pod cannot",
		theirs: "[]",
	},
	{
		reason: "volumes: a GCE disk is named as in the manifest",
		ours:   at(`(spec\.volumes\[\d+\])\.gcePersistentDisk\.(.*)`),
		theirs: "${1}.persistentDisk.${2}",
	},
	{
		reason: "volumes: the iSCSI initiator is named as in the manifest",
		ours:   at(`(.*\.iscsi)\.initiatorName`),
		theirs: "${1}.initiatorname",
	},
	{
		reason: "volumes: an iSCSI portal too long for an initiator is reported at the portal",
		ours:   at(`(spec\.volumes\[\d+\])\.iscsi\.targetPortal`),
		detail: "together with the volume",
		theirs: "${1}.name",
	},
	{
		reason: "volumes: the Secret of a CSI volume is reported where it is named",
		ours:   at(`(.*\.csi)\.nodePublishSecretRef\.name`),
		kind:   field.ErrorTypeInvalid,
		theirs: "${1}.name",
	},
	{
		reason: "volumes: the uid of a claim is spelled as in the manifest",
		ours:   at(`(.*\.volumeClaimTemplate\.metadata)\.uid`),
		theirs: "${1}.uID",
	},
	{
		reason: "volumes: the size of a claim is reported at its request",
		ours:   at(`(.*\.volumeClaimTemplate\.spec\.resources)\.requests\[storage\]`),
		theirs: "${1}[storage]",
	},
	{
		reason: "volumes: a claim's dataSource is reported where it is",
		ours:   at(`(.*\.volumeClaimTemplate\.spec)\.dataSource`),
		detail: "dataSourceRef",
		theirs: "${1}",
	},
	{
		reason: "volumes: a file that two projected sources make is reported at the second one",
		ours:   at(`(spec\.volumes\[\d+\]\.projected)\..*`),
		detail: "conflicting duplicate paths",
		theirs: "${1}",
	},
	{
		reason: "volumes: the file of a projected token is reported where it is",
		ours:   at(`(spec\.volumes\[\d+\]\.projected)\.sources\[\d+\]\.serviceAccountToken\.path`),
		theirs: "${1}.path",
	},
	{
		reason: "volumes: an item of downwardAPI is named by its index",
		ours:   at(`(spec\.volumes\[\d+\]\.(?:projected\.sources\[\d+\]\.)?downwardAPI)\.items\[\d+\](.*)`),
		theirs: "${1}${2}",
	},
}

// faultDifference is a fault that only one side reports.
type faultDifference struct {
	reason string
	is     func(pod *v1.Pod, err *field.Error, theirs field.ErrorList) bool
}

var oursOnly = []faultDifference{
	{
		reason: "ports: hostIP is judged, since the runtime would refuse it",
		is: func(_ *v1.Pod, err *field.Error, _ field.ErrorList) bool {
			return strings.HasSuffix(err.Field, "].hostIP") && err.Type == field.ErrorTypeInvalid
		},
	},
	{
		reason: "volumes: an image volume needs a reference, as at the API server; the kubelet's options judge the pod like a template",
		is: func(_ *v1.Pod, err *field.Error, _ field.ErrorList) bool {
			return strings.HasSuffix(err.Field, ".image.reference") && err.Type == field.ErrorTypeRequired
		},
	},
	{
		reason: "restart: the rules of an init container are judged also when its restartPolicy is missing",
		is: func(_ *v1.Pod, err *field.Error, theirs field.ErrorList) bool {
			container, _, ok := strings.Cut(err.Field, ".restartPolicyRules")
			return ok && strings.HasPrefix(container, "spec.initContainers") && reports(theirs, container+".restartPolicy", field.ErrorTypeRequired)
		},
	},
	{
		reason: "volumes: a name that is there twice is reported also when the first volume is faulty",
		is: func(pod *v1.Pod, err *field.Error, theirs field.ErrorList) bool {
			volume := volumeAt(err.Field)
			return volume > 0 && err.Type == field.ErrorTypeDuplicate && slices.ContainsFunc(theirs, func(other *field.Error) bool {
				earlier := volumeAt(other.Field)
				return earlier >= 0 && earlier < volume && pod.Spec.Volumes[earlier].Name == pod.Spec.Volumes[volume].Name
			})
		},
	},
	{
		reason: "volumes: the resource of a downwardAPI item is judged also when its container is missing",
		is: func(_ *v1.Pod, err *field.Error, theirs field.ErrorList) bool {
			ref, ok := strings.CutSuffix(itemless.ReplaceAllString(err.Field, ".downwardAPI"), ".resource")
			return ok && reports(theirs, ref+".containerName", field.ErrorTypeRequired)
		},
	},
	{
		reason: "volumes: a faulty volume cannot be a device for what it is, too",
		is: func(pod *v1.Pod, err *field.Error, theirs field.ErrorList) bool {
			return strings.Contains(err.Field, ".volumeDevices[") && reports(theirs, err.Field, field.ErrorTypeNotFound)
		},
	},
	{
		reason: "mounts: a path is compared with all devices and mounts, also with those whose name comes again",
		is: func(_ *v1.Pod, err *field.Error, _ field.ErrorList) bool {
			return strings.Contains(err.Detail, "must not be a path in") && strings.HasSuffix(err.Detail, "as well")
		},
	},
	{
		reason: "dns: search domains are judged also when nameservers are missing",
		is: func(_ *v1.Pod, err *field.Error, theirs field.ErrorList) bool {
			return strings.HasPrefix(err.Field, "spec.dnsConfig.") && reports(theirs, "spec.dnsConfig.nameservers", field.ErrorTypeRequired)
		},
	},
	severalTypes,
}

// severalTypes is on both sides: which of a volume's types is the one too many
// depends on the order in which they are looked at.
var severalTypes = faultDifference{
	reason: "volumes: of several types another one may be taken for the first",
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
		reason: "mounts: a volume that is declared but faulty is not missing",
		is: func(pod *v1.Pod, err *field.Error, _ field.ErrorList) bool {
			name, ok := err.BadValue.(string)
			return ok && err.Type == field.ErrorTypeNotFound && strings.Contains(err.Field, "].volume") &&
				slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.Name == name })
		},
	},
	{
		reason: "a required value that is missing is reported once, not judged as a value as well",
		is: func(_ *v1.Pod, err *field.Error, theirs field.ErrorList) bool {
			return err.Type != field.ErrorTypeRequired && reports(theirs, err.Field, field.ErrorTypeRequired)
		},
	},
	{
		reason: "ephemeral containers are refused as a whole, so that what is wrong inside is not listed",
		is: func(pod *v1.Pod, err *field.Error, _ field.ErrorList) bool {
			// A hostProcess container among them tells on the whole pod.
			ofPod := err.Field == "spec" || err.Field == "spec.hostNetwork"
			return strings.HasPrefix(err.Field, "spec.ephemeralContainers[") || ofPod && len(pod.Spec.EphemeralContainers) > 0
		},
	},
}

// defaultDifference changes upstream's defaulted pod to what ours is meant to be.
type defaultDifference struct {
	reason string
	apply  func(ours, theirs *v1.Pod) bool
}

var defaultDifferences = []defaultDifference{
	{
		reason: "metadata: annotations from before there was spec.initContainers are kept like any other; nothing reads them",
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
