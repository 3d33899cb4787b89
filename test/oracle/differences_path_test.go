package oracle

import (
	"regexp"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// pathDifference is an error that both report, but ours at the exact path of the
// field, so that its line in the manifest can be found.
type pathDifference struct {
	reason string
	ours   *regexp.Regexp
	// detail and kind restrict which of our errors it applies to.
	detail *regexp.Regexp
	kind   field.ErrorType
	// theirs replaces ours in the path; theirKind is upstream's type if it differs.
	theirs    string
	theirKind field.ErrorType
}

// move returns one of our errors as upstream reports it, nil if the difference
// does not apply to it.
func (d *pathDifference) move(err *field.Error) *field.Error {
	if !d.ours.MatchString(err.Field) || d.kind != "" && d.kind != err.Type {
		return nil
	}
	if d.detail != nil && !d.detail.MatchString(err.Detail) {
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
		ours: at(
			`(spec\.volumes\[\d+\]\.(?:projected\.sources\[\d+\]\.)?downwardAPI)\.items\[\d+\](\.fieldRef)\.fieldPath`),
		detail: regexp.MustCompile("name part"),
		theirs: "${1}${2}",
	},
	{
		reason: "metadata: deprecated annotations are named by their key in brackets, like all others",
		ours:   at(`(metadata\.annotations)\[((?:container\.)?seccomp\.security\.alpha\.kubernetes\.io/[^\]]*)\]`),
		theirs: "${1}.${2}",
	},
	{
		reason: "metadata: tolerations in an annotation are named by its key in brackets",
		ours: at(
			`(metadata\.annotations)\[(scheduler\.alpha\.kubernetes\.io/tolerations)\](\[\d+\])\.(key|effect|operator)`),
		theirs: "${1}.${2}${3}.${4}",
	},
	{
		reason: "metadata: the value of such a toleration is reported at the value",
		ours:   at(`(metadata\.annotations)\[(scheduler\.alpha\.kubernetes\.io/tolerations)\](\[\d+\])\.value`),
		theirs: "${1}.${2}${3}.operator",
	},
	{
		reason: "metadata: tolerations that cannot be decoded are reported at their annotation",
		ours:   at(`(metadata\.annotations)\[scheduler\.alpha\.kubernetes\.io/tolerations\]`),
		theirs: "${1}",
	},
	{
		reason: "metadata: a bad label, annotation or entry of a nodeSelector is named by its key",
		ours:   at(`([^\[]*(?:\[\d+\][^\[]*)?\.(?:labels|annotations|nodeSelector))\[.*\]`),
		kind:   field.ErrorTypeInvalid,
		detail: regexp.MustCompile("name part|prefix part|a qualified name|a valid label|must be no more than 63"),
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
		detail: regexp.MustCompile("name part"),
		theirs: "${1}",
	},
	{
		reason:    "env: an empty name in a reference is reported as missing, not as invalid",
		ours:      at(`(.*\.(?:configMapKeyRef|secretKeyRef)\.name)`),
		kind:      field.ErrorTypeRequired,
		theirs:    "${1}",
		theirKind: field.ErrorTypeInvalid,
	},
	{
		reason: "mounts: the mount is named by its index",
		ours:   at(`(spec\.(?:initC|c)ontainers\[\d+\]\.volumeMounts)\[\d+\]\.(subPath|mountPropagation|recursiveReadOnly)`),
		theirs: "${1}.${2}",
	},
	{
		reason: "mounts: the mount of an invalid subPathExpr is named by its index",
		ours:   at(`(spec\.(?:initC|c)ontainers\[\d+\]\.volumeMounts)\[\d+\]\.(subPathExpr)`),
		detail: regexp.MustCompile("must be a relative path|must not contain"),
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
		detail: regexp.MustCompile("the limit, "),
		theirs: "${1}",
	},
	{
		reason: "resources: a container's limit above the pod's is reported at the container's",
		ours:   at(`spec\.containers(\[\d+\])\.resources\.limits(\[.*\])`),
		detail: regexp.MustCompile("must be at most the pod's limit"),
		theirs: "spec.resources.containers${1}${2}.limits",
	},
	{
		reason: "resources: any name that spec.resources cannot contain is reported as not supported, whether " +
			"Kubernetes knows it or not",
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
		reason: "resize: the item of an invalid restartPolicy is named by its index",
		ours:   at(`(spec\.(?:initC|c)ontainers\[\d+\]\.resizePolicy)\[\d+\]\.restartPolicy`),
		detail: regexp.MustCompile("^supported values|must be one of|in a pod with"),
		theirs: "${1}",
	},
	{
		reason: "ports: a host port that an init container uses twice is reported at that container, not always at the first",
		ours:   at(`spec\.initContainers\[\d+\](\.ports\[\d+\]\.hostPort)`),
		kind:   field.ErrorTypeDuplicate,
		theirs: "spec.initContainers[0]${1}",
	},
	{
		reason: "security: a contradiction is reported at allowPrivilegeEscalation, not at the whole securityContext",
		ours:   at(`(spec\.(?:initC|c)ontainers\[\d+\]\.securityContext)\.allowPrivilegeEscalation`),
		detail: regexp.MustCompile("must not be false"),
		theirs: "${1}",
	},
	{
		reason: "security: hostPID and hostIPC are spelled as in the manifest",
		ours:   at(`spec\.h(ostPID|ostIPC)`),
		detail: regexp.MustCompile("hostUsers: false"),
		theirs: "spec.H${1}",
	},
	{
		reason: "security: shareProcessNamespace is a field of the spec",
		ours:   at(`spec\.shareProcessNamespace`),
		detail: regexp.MustCompile("hostPID"),
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
		reason: "scheduling: gates of a bound pod are reported at the gates, since the manifest sets no node",
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
		detail: regexp.MustCompile("may occur only once"),
		theirs: "${1}.{topologyKey, whenUnsatisfiable}",
	},
	{
		reason: "scheduling: a key that is selected twice is named by its list",
		ours:   at(`(.*)\.matchLabelKeys(\[\d+\])`),
		detail: regexp.MustCompile("must not also be in labelSelector"),
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
		detail: regexp.MustCompile("a static pod cannot"),
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
		reason: "volumes: an iSCSI portal that is too long for an initiator is reported at the portal",
		ours:   at(`(spec\.volumes\[\d+\])\.iscsi\.targetPortal`),
		detail: regexp.MustCompile("together with the volume"),
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
		detail: regexp.MustCompile("dataSourceRef"),
		theirs: "${1}",
	},
	{
		reason: "volumes: a file that two projected sources write is reported at the second one",
		ours:   at(`(spec\.volumes\[\d+\]\.projected)\..*`),
		detail: regexp.MustCompile("another source of this volume"),
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
