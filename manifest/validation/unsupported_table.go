package validation

import (
	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// Reasons why fields do not affect how a pod runs here.
const (
	serverField    ignored = "maintained by the API server or other tools; it does not affect a running pod"
	placement      ignored = "selects a node; a static pod is already placed on this one"
	typeField      ignored = "evaluated when the document is decoded"
	nodePreference ignored = "selects among nodes; there is only one"
)

// podVerdicts is the one place that defines what this version supports of a
// Pod. A new feature changes its verdict here and names the end-to-end test
// that proves it. A test fails when the API has a field without a verdict, or a
// verdict has no field; docs/pod-spec.md is generated from this table.
var podVerdicts = structVerdict{
	"kind":       typeField,
	"apiVersion": typeField,
	"metadata":   metadataVerdicts,
	"spec":       specVerdicts,
	// The status in a manifest is that of another pod, as written by kubectl
	// get -o yaml; that of this pod is generated.
	"status": serverField,
}

var metadataVerdicts = structVerdict{
	"name":        supported("TestContainerSeesItsSpec"),
	"namespace":   supported("TestContainerSeesItsSpec"),
	"uid":         supported("TestResizeKeepsThePod"),
	"labels":      supported("TestContainerSeesItsSpec"),
	"annotations": annotationVerdicts,
	// A name is required, so that none is generated.
	"generateName":               serverField,
	"selfLink":                   serverField,
	"resourceVersion":            serverField,
	"generation":                 serverField,
	"creationTimestamp":          serverField,
	"ownerReferences":            serverField,
	"finalizers":                 serverField,
	"managedFields":              serverField,
	"deletionTimestamp":          unsupported("is set only on a pod that is being deleted; remove the field"),
	"deletionGracePeriodSeconds": unsupported("is set only on a pod that is being deleted; remove the field"),
}

// annotationVerdicts: annotations are passed to the runtime unchanged, except
// those that were replaced by fields.
var annotationVerdicts = mapVerdict{
	"*":                                supported("TestContainerSeesItsSpec"),
	podinfo.AnnotationMaxRestartPeriod: supported("TestCrashLoopCap"),
	podinfo.AnnotationAllowDevices:     supported("TestAllowDevices"),
	podinfo.AnnotationAutoUpdate:       supported("TestAutoUpdateFromRegistry"),
	podinfo.AnnotationDependsOn:        supported("TestStartOrder"),
	podinfo.AnnotationReplace:          supported("TestReplaceAsTheKubelet"),
	podinfo.AnnotationRestartOnChange:  supported("TestChangedObjectRestartsThePod"),
	podinfo.AnnotationRollbackAfter:    supported("TestRollbackAfter"),
	podinfo.AnnotationMirror: unsupported("marks the mirror pod of another static pod; remove the annotation, " +
		"or use the manifest that the mirror pod was made from"),
	annotationSeccomp:              supported("TestProfileAnnotations"),
	annotationSeccompPrefix + "*":  supported("TestProfileAnnotations"),
	annotationAppArmorPrefix + "*": supported("TestProfileAnnotations"),
	annotationCDIPrefix + "*": unsupported("requests CDI devices, which runtimes read from the annotations of " +
		"a container and not of a pod: the pod would run without them; name the device in localDevices and request it as a " +
		"resource (docs/devices.md), or remove the annotation"),
	podinfo.AnnotationIngressBandwidth: supported("TestBandwidth"),
	podinfo.AnnotationEgressBandwidth:  supported("TestBandwidth"),
}

var specVerdicts = structVerdict{
	"containers":     listVerdict{containerVerdicts},
	"initContainers": listVerdict{containerVerdicts},
	"ephemeralContainers": unsupported(
		"can only be added to a running pod; remove the field, and use podstead debug"),
	"volumes":                       listVerdict{volumeVerdicts},
	"restartPolicy":                 supported("TestRestartPolicies"),
	"terminationGracePeriodSeconds": supported("TestTwoEditsWithinGrace"),
	"activeDeadlineSeconds":         supported("TestActiveDeadline"),
	"hostNetwork":                   supported("TestHostNetwork"),
	"hostPID":                       supported("TestSharedNamespaces"),
	"hostIPC":                       supported("TestSharedNamespaces"),
	"hostUsers":                     supported("TestUserNamespace"),
	"shareProcessNamespace":         supported("TestSharedNamespaces"),
	"securityContext":               podSecurityVerdicts,
	"dnsPolicy":                     supported("TestResolvConf"),
	"dnsConfig":                     supported("TestResolvConf"),
	"hostname":                      supported("TestHostnames"),
	"subdomain":                     supported("TestHostnames"),
	"setHostnameAsFQDN":             supported("TestHostnames"),
	"hostnameOverride":              supported("TestHostnames"),
	"hostAliases":                   supported("TestHostsFile"),
	"imagePullSecrets":              supported("TestPullSecrets"),
	"resources":                     podResourceVerdicts,
	"resourceClaims":                clusterDevices,
	"overhead":                      overheadVerdicts,
	"runtimeClassName":              supported("TestRuntimeClass"),
	"readinessGates":                supported("TestReadinessGate"),
	"priority":                      supported("TestPriorityClass"),
	"priorityClassName":             supported("TestPriorityClass"),
	"os": structVerdict{
		"name": unless(unsupported("is not the operating system of this node; must be linux"), v1.Linux)},

	// The kubelet rejects it in static pods. See unsupportedValues for a name
	// without automountServiceAccountToken: false.
	"serviceAccountName": ignored("names an identity of an API server, and no token is mounted; a name other " +
		"than default is rejected unless automountServiceAccountToken is false"),
	"serviceAccount": ignored("the same as serviceAccountName"),
	"automountServiceAccountToken": unless(
		unsupported("requests a token of an API server, and there is none; set it to false or remove the field"), false),
	"enableServiceLinks": ignored("without a cluster there are no services to set variables for"),

	"nodeName":                  placement,
	"schedulerName":             placement,
	"tolerations":               listVerdict{tolerationVerdicts},
	"preemptionPolicy":          ignored("for a scheduler; on a node only critical pods preempt others"),
	"nodeSelector":              supported("TestNodeSelector"),
	"affinity":                  affinityVerdicts,
	"topologySpreadConstraints": listVerdict{spreadVerdicts},
	"schedulingGates": unsupported("requires a scheduler; a static pod is bound to its node from the start; " +
		"remove the field, and add the manifest when the pod may run"),
	"schedulingGroup": unsupported(
		"requires a scheduler; a static pod is bound to its node from the start; remove the field"),
}

// tolerationVerdicts: of the taints that a scheduler evaluates, one counts on
// the node too: that of memory pressure, for pods without requests.
var tolerationVerdicts = structVerdict{
	"key":               supported("TestEviction"),
	"operator":          supported("TestEviction"),
	"value":             supported("TestEviction"),
	"effect":            supported("TestEviction"),
	"tolerationSeconds": placement,
}

// affinityVerdicts: with one node there is nothing to prefer. What is required is judged
// against the labels of this node and the pods that run on it.
var affinityVerdicts = structVerdict{
	"nodeAffinity": structVerdict{
		"requiredDuringSchedulingIgnoredDuringExecution":  supported("TestNodeSelector"),
		"preferredDuringSchedulingIgnoredDuringExecution": nodePreference,
	},
	"podAffinity":     podAffinityVerdicts,
	"podAntiAffinity": podAffinityVerdicts,
}

var podAffinityVerdicts = structVerdict{
	"requiredDuringSchedulingIgnoredDuringExecution":  supported("TestPodAffinity"),
	"preferredDuringSchedulingIgnoredDuringExecution": nodePreference,
}

// spreadVerdicts: with one node every spread is even, unless minDomains requires more nodes.
var spreadVerdicts = structVerdict{
	"maxSkew":            supported("TestTopologySpread"),
	"topologyKey":        supported("TestTopologySpread"),
	"whenUnsatisfiable":  supported("TestTopologySpread"),
	"labelSelector":      supported("TestTopologySpread"),
	"minDomains":         supported("TestTopologySpread"),
	"nodeAffinityPolicy": nodePreference,
	"nodeTaintsPolicy":   nodePreference,
	"matchLabelKeys":     supported("TestTopologySpread"),
}

var containerVerdicts = structVerdict{
	"name":            supported("TestContainerSeesItsSpec"),
	"image":           supported("TestContainerSeesItsSpec"),
	"imagePullPolicy": supported("TestImageThatComesLater"),
	"command":         supported("TestContainerSeesItsSpec"),
	"args":            supported("TestContainerSeesItsSpec"),
	"workingDir":      supported("TestWorkingDirAndStandardInput"),
	"env": listVerdict{structVerdict{"name": supported("TestContainerSeesItsSpec"),
		"value": supported("TestContainerSeesItsSpec"), "valueFrom": envSourceVerdicts}},
	"envFrom":   supported("TestVariablesFromObjects"),
	"ports":     supported("TestHostPort"),
	"resources": resourceVerdicts,
	"resizePolicy": listVerdict{structVerdict{"resourceName": supported("TestResizeKeepsThePod"),
		"restartPolicy": supported("TestResizeKeepsThePod")}},
	"volumeMounts": listVerdict{mountVerdicts},
	"volumeDevices": listVerdict{
		structVerdict{"name": supported("TestBlockVolumes"), "devicePath": supported("TestBlockVolumes")}},
	"livenessProbe":            probeVerdicts,
	"readinessProbe":           readinessVerdicts,
	"startupProbe":             probeVerdicts,
	"lifecycle":                lifecycleVerdicts,
	"restartPolicy":            supported("TestContainerRestartPolicies"),
	"restartPolicyRules":       supported("TestRestartRules"),
	"securityContext":          containerSecurityVerdicts,
	"terminationMessagePath":   supported("TestTerminationMessageElsewhere"),
	"terminationMessagePolicy": supported("TestTerminationMessageElsewhere"),
	"stdin":                    supported("TestWorkingDirAndStandardInput"),
	"stdinOnce":                supported("TestWorkingDirAndStandardInput"),
	"tty":                      supported("TestWorkingDirAndStandardInput"),
}

var lifecycleVerdicts = structVerdict{
	"postStart":  hookVerdicts("TestPostStart"),
	"preStop":    hookVerdicts("TestPreStop"),
	"stopSignal": supported("TestStopSignal"),
}

func hookVerdicts(proof supported) structVerdict {
	return structVerdict{
		"exec": structVerdict{"command": proof},
		"httpGet": structVerdict{
			"path": proof, "port": proof, "host": proof, "scheme": proof,
			"httpHeaders": listVerdict{structVerdict{"name": proof, "value": proof}},
		},
		"tcpSocket": structVerdict{"port": proof, "host": proof},
		"sleep":     structVerdict{"seconds": proof},
	}
}

// envSourceVerdicts: whether the source of a variable exists is checked when it
// is resolved.
var envSourceVerdicts = structVerdict{
	"fieldRef":         supported("TestVariablesFromTheDownwardAPI"),
	"resourceFieldRef": supported("TestVariablesFromTheDownwardAPI"),
	"configMapKeyRef":  supported("TestVariablesFromObjects"),
	"secretKeyRef":     supported("TestVariablesFromObjects"),
	"fileKeyRef":       supported("TestVariablesFromAFile"),
}

var probeVerdicts = structVerdict{
	"exec": structVerdict{"command": supported("TestProbeExecReadiness")},
	"httpGet": structVerdict{
		"path": supported("TestProbeHTTPReadinessAfterStartup"), "port": supported("TestProbeHTTPReadinessAfterStartup"),
		"host": supported("TestProbesOfOtherHosts"), "scheme": supported("TestProbesOfOtherHosts"),
		"httpHeaders": listVerdict{structVerdict{"name": supported("TestProbesOfOtherHosts"),
			"value": supported("TestProbesOfOtherHosts")}},
	},
	"tcpSocket": structVerdict{"port": supported("TestProbeHTTPReadinessAfterStartup"),
		"host": supported("TestProbesOfOtherHosts")},
	"grpc": structVerdict{"port": supported("TestProbeGRPC"),
		"service": supported("TestProbeGRPC")},
	"initialDelaySeconds":           supported("TestProbesOfOtherHosts"),
	"timeoutSeconds":                supported("TestProbeTimeoutEndsTheCommand"),
	"periodSeconds":                 supported("TestProbesOfOtherHosts"),
	"successThreshold":              supported("TestProbesOfOtherHosts"),
	"failureThreshold":              supported("TestProbeLivenessRestarts"),
	"terminationGracePeriodSeconds": supported("TestProbeGRPC"),
}

// readinessVerdicts: the API has the field in every probe and rejects it in this one.
var readinessVerdicts = probeVerdicts.override(structVerdict{
	"terminationGracePeriodSeconds": unsupported(
		"has no effect, because a readiness probe never stops a container; remove the field"),
})

var podSecurityVerdicts = structVerdict{
	"runAsNonRoot":             supported("TestSecurityContextThatCannotBe"),
	"runAsUser":                supported("TestSecurityContext"),
	"runAsGroup":               supported("TestSecurityContext"),
	"supplementalGroups":       supported("TestSecurityContext"),
	"supplementalGroupsPolicy": supported("TestSupplementalGroupsPolicy"),
	"fsGroup":                  supported("TestFSGroup"),
	"fsGroupChangePolicy":      supported("TestFSGroup"),
	"sysctls": listVerdict{
		structVerdict{"name": supported("TestSysctls"), "value": supported("TestSysctls")}},
	"seccompProfile":      seccompVerdicts,
	"appArmorProfile":     supported("TestHostWithoutSecurityModules"),
	"seLinuxOptions":      supported("TestHostWithoutSecurityModules"),
	"seLinuxChangePolicy": ignored("files are always relabeled recursively, which both policies allow"),
	"windowsOptions":      unsupported("is for Windows, and this node runs Linux; remove the field"),
}

var seccompVerdicts = structVerdict{
	"type":             supported("TestSecurityContext"),
	"localhostProfile": supported("TestSecurityContext"),
}

// containerSecurityVerdicts: stating a default explicitly is supported.
var containerSecurityVerdicts = structVerdict{
	"privileged":               supported("TestSecurityContext"),
	"allowPrivilegeEscalation": supported("TestSecurityContext"),
	"readOnlyRootFilesystem":   supported("TestSecurityContext"),
	"runAsNonRoot":             supported("TestSecurityContextThatCannotBe"),
	"runAsUser":                supported("TestSecurityContext"),
	"runAsGroup":               supported("TestSecurityContext"),
	"procMount":                supported("TestUserNamespace"),
	"capabilities":             supported("TestSecurityContext"),
	"seccompProfile":           seccompVerdicts,
	"appArmorProfile":          supported("TestHostWithoutSecurityModules"),
	"seLinuxOptions":           supported("TestHostWithoutSecurityModules"),
	"windowsOptions":           unsupported("is for Windows, and this node runs Linux; remove the field"),
}

var resourceVerdicts = resourceVerdict{structVerdict{
	"limits":   quantityVerdicts,
	"requests": quantityVerdicts,
	"claims":   clusterDevices,
}}

// clusterDevices is the error for dynamic resource allocation.
const clusterDevices unsupported = "needs a scheduler to allocate it, and a static pod has none; request the device " +
	"as a resource in limits, which a device plugin or localDevices provides (docs/devices.md), or create the pod in a " +
	"cluster"

var quantityVerdicts = mapVerdict{
	string(v1.ResourceCPU):              supported("TestContainerSeesItsSpec"),
	string(v1.ResourceMemory):           supported("TestContainerSeesItsSpec"),
	string(v1.ResourceEphemeralStorage): supported("TestLocalStorageLimits"),
	v1.ResourceHugePagesPrefix + "*":    supported("TestHugePages"),
	"*":                                 supported("TestDevicePlugin"),
}

// podResourceVerdicts: no other resources are valid for a whole pod.
var podResourceVerdicts = resourceVerdict{structVerdict{
	"limits":   podQuantityVerdicts,
	"requests": podQuantityVerdicts,
	"claims":   clusterDevices,
}}

var podQuantityVerdicts = mapVerdict{
	string(v1.ResourceCPU):           supported("TestPodLevelResources"),
	string(v1.ResourceMemory):        supported("TestPodLevelResources"),
	v1.ResourceHugePagesPrefix + "*": supported("TestHugePages"),
	"*":                              unsupported("is not valid for a whole pod; request it in the limits of a container"),
}

var overheadVerdicts = mapVerdict{
	string(v1.ResourceCPU):    supported("TestPodLevelResources"),
	string(v1.ResourceMemory): supported("TestPodLevelResources"),
	"*":                       unsupported("is not supported as pod overhead; only cpu and memory are"),
}

var mountVerdicts = structVerdict{
	"name":              supported("TestContainerSeesItsSpec"),
	"mountPath":         supported("TestContainerSeesItsSpec"),
	"readOnly":          supported("TestContainerSeesItsSpec"),
	"subPath":           supported("TestSubPaths"),
	"subPathExpr":       supported("TestSubPaths"),
	"mountPropagation":  supported("TestMountPropagation"),
	"recursiveReadOnly": supported("TestRecursiveReadOnly"),
}

var volumeVerdicts = withDriverTypes(structVerdict{
	"name":     supported("TestContainerSeesItsSpec"),
	"hostPath": supported("TestContainerSeesItsSpec"),
	"emptyDir": structVerdict{
		"medium":    supported("TestEmptyDirInMemory"),
		"sizeLimit": supported("TestLocalStorageLimits"),
	},

	"configMap":             supported("TestObjectVolumes"),
	"secret":                supported("TestObjectVolumes"),
	"downwardAPI":           supported("TestDownwardVolume"),
	"projected":             projectedVerdicts,
	"image":                 supported("TestImageVolume"),
	"persistentVolumeClaim": supported("TestPersistentVolumes"),
	"ephemeral": unsupported("needs the controller of a cluster, which creates its claim; use an emptyDir, " +
		"which has the same lifetime, or a persistentVolumeClaim"),
	"csi":     supported("TestCSIVolumes"),
	"nfs":     supported("TestNFSByTheHostsProgram"),
	"gitRepo": unsupported("was removed from Kubernetes; clone the repository into an emptyDir in an init container"),
})

var projectedVerdicts = structVerdict{
	"defaultMode": supported("TestObjectVolumes"),
	"sources":     listVerdict{projectedSourceVerdicts},
}

var projectedSourceVerdicts = structVerdict{
	"configMap":   supported("TestObjectVolumes"),
	"secret":      supported("TestObjectVolumes"),
	"downwardAPI": supported("TestObjectVolumes"),
	"serviceAccountToken": unsupported(
		"needs an API server that issues tokens; put a token into a Secret and project that"),
	"clusterTrustBundle": unsupported(
		"needs an API server that stores trust bundles; put the certificates into a ConfigMap and project that"),
	"podCertificate": unsupported(
		"needs an API server that signs certificates; put the certificate into a Secret and project that"),
}
