package validation

import (
	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// Why fields have no say in how a pod runs here.
const (
	bookkeeping inert = "kept by the API server or by other tools; nothing about a running pod depends on it"
	placing     inert = "chooses a node; whoever put the manifest here has placed the pod"
	settled     inert = "settled when the document is read"
	preference  inert = "chooses among nodes; there is one"
)

// clusterStorage is what is said of volumes whose driver is part of a cluster.
const clusterStorage refused = "needs a storage driver that only a cluster has; mount the storage on the host and use a hostPath"

// podVerdicts is the one place that says what this version honours of a Pod.
// Whoever builds a feature turns its verdict here, naming the end-to-end test
// that proves it. A test fails when the API has a field without a verdict, or a
// verdict has no field; docs/pod-spec.md is made of this table.
var podVerdicts = structVerdict{
	"kind":       settled,
	"apiVersion": settled,
	"metadata":   metadataVerdicts,
	"spec":       specVerdicts,
	// The status in a manifest is that of another pod, as written by
	// kubectl get -o yaml; the one of this pod is generated.
	"status": bookkeeping,
}

var metadataVerdicts = structVerdict{
	"name":        honoured("TestContainerSeesItsSpec"),
	"namespace":   honoured("TestContainerSeesItsSpec"),
	"uid":         honoured("TestResizeKeepsThePod"),
	"labels":      honoured("TestContainerSeesItsSpec"),
	"annotations": annotationVerdicts,
	// A name is required, so that none is generated.
	"generateName":               bookkeeping,
	"selfLink":                   bookkeeping,
	"resourceVersion":            bookkeeping,
	"generation":                 bookkeeping,
	"creationTimestamp":          bookkeeping,
	"ownerReferences":            bookkeeping,
	"finalizers":                 bookkeeping,
	"managedFields":              bookkeeping,
	"deletionTimestamp":          refused("is that of a pod which is being deleted; take the field out"),
	"deletionGracePeriodSeconds": refused("is that of a pod which is being deleted; take the field out"),
}

// annotationVerdicts: annotations are carried to the runtime as they are.
// Those that were settings before there were fields for them are not.
var annotationVerdicts = mapVerdict{
	"*":                                honoured("TestContainerSeesItsSpec"),
	podinfo.AnnotationMaxRestartPeriod: honoured("TestCrashLoopCap"),
	podinfo.AnnotationMirror:           notYet("API servers' copies of static pods are"),
	annotationSeccomp:                  refused("has no effect since Kubernetes 1.27; set spec.securityContext.seccompProfile instead"),
	annotationSeccompPrefix + "*":      refused("has no effect since Kubernetes 1.27; set securityContext.seccompProfile of the container instead"),
	annotationAppArmorPrefix + "*":     refused("is the old form of securityContext.appArmorProfile; set that of the container instead"),
}

var specVerdicts = structVerdict{
	"containers":                    listVerdict{containerVerdicts},
	"initContainers":                listVerdict{containerVerdicts},
	"ephemeralContainers":           refused("can only be added to a pod that runs; take the field out, and look into the pod with another container beside it"),
	"volumes":                       listVerdict{volumeVerdicts},
	"restartPolicy":                 honoured("TestRestartPolicies"),
	"terminationGracePeriodSeconds": honoured("TestTwoEditsWithinGrace"),
	"activeDeadlineSeconds":         honoured("TestActiveDeadline"),
	"hostNetwork":                   honoured("TestHostNetwork"),
	"hostPID":                       honoured("TestSharedNamespaces"),
	"hostIPC":                       honoured("TestSharedNamespaces"),
	"hostUsers":                     honoured("TestUserNamespace"),
	"shareProcessNamespace":         honoured("TestSharedNamespaces"),
	"securityContext":               podSecurityVerdicts,
	"dnsPolicy":                     honoured("TestResolvConf"),
	"dnsConfig":                     honoured("TestResolvConf"),
	"hostname":                      honoured("TestHostnames"),
	"subdomain":                     honoured("TestHostnames"),
	"setHostnameAsFQDN":             honoured("TestHostnames"),
	"hostnameOverride":              honoured("TestHostnames"),
	"hostAliases":                   honoured("TestHostsFile"),
	"imagePullSecrets":              honoured("TestPullSecrets"),
	"resources":                     podResourceVerdicts,
	"resourceClaims":                clusterDevices,
	"overhead":                      overheadVerdicts,
	"runtimeClassName":              honoured("TestRuntimeClass"),
	"readinessGates":                honoured("TestReadinessGate"),
	"priority":                      honoured("TestPriorityClass"),
	"priorityClassName":             honoured("TestPriorityClass"),
	"os":                            structVerdict{"name": unless(refused("is not that of this node; must be linux"), v1.Linux)},

	// The kubelet refuses any. See unservable for a name without the word that
	// no token is needed.
	"serviceAccountName":           inert("names an identity at an API server, and no token of one is mounted"),
	"serviceAccount":               inert("the same as serviceAccountName"),
	"automountServiceAccountToken": unless(refused("asks for a token of an API server, and there is none; set it to false, or take the field out"), false),
	"enableServiceLinks":           inert("without a cluster there are no services to make variables of"),

	"nodeName":                  placing,
	"schedulerName":             placing,
	"tolerations":               listVerdict{tolerationVerdicts},
	"preemptionPolicy":          inert("for a scheduler; on a node only critical pods make others give way"),
	"nodeSelector":              honoured("TestNodeSelector"),
	"affinity":                  affinityVerdicts,
	"topologySpreadConstraints": listVerdict{spreadVerdicts},
	"schedulingGates":           refused("is for a scheduler, and a manifest's pod belongs to its node from the start; take the field out, and add the manifest when the pod may run"),
	"schedulingGroup":           refused("is for a scheduler, and a manifest's pod belongs to its node from the start; take the field out"),
}

// affinityVerdicts: with one node there is nothing to prefer. Which other pods
// must be beside it, or must not, is for whoever puts the manifests here.
// tolerationVerdicts: of the taints that a scheduler heeds one counts on the
// node too, that of memory pressure, for pods without requests.
var tolerationVerdicts = structVerdict{
	"key":               honoured("TestEviction"),
	"operator":          honoured("TestEviction"),
	"value":             honoured("TestEviction"),
	"effect":            honoured("TestEviction"),
	"tolerationSeconds": placing,
}

var affinityVerdicts = structVerdict{
	"nodeAffinity": structVerdict{
		"requiredDuringSchedulingIgnoredDuringExecution":  honoured("TestNodeSelector"),
		"preferredDuringSchedulingIgnoredDuringExecution": preference,
	},
	"podAffinity":     podAffinityVerdicts,
	"podAntiAffinity": podAffinityVerdicts,
}

var podAffinityVerdicts = structVerdict{
	"requiredDuringSchedulingIgnoredDuringExecution":  refused("is for a scheduler, which this node does not have; take the term out, and put the manifests of pods that must not be together on different nodes"),
	"preferredDuringSchedulingIgnoredDuringExecution": preference,
}

// spreadVerdicts: over one node every spread is even. Whether a zone has too
// many pods, no single node knows.
var spreadVerdicts = structVerdict{
	"maxSkew":            preference,
	"topologyKey":        preference,
	"whenUnsatisfiable":  unless(refused("is for a scheduler, which this node does not have; set it to ScheduleAnyway, or take the constraint out"), v1.ScheduleAnyway),
	"labelSelector":      preference,
	"minDomains":         preference,
	"nodeAffinityPolicy": preference,
	"nodeTaintsPolicy":   preference,
	"matchLabelKeys":     preference,
}

var containerVerdicts = structVerdict{
	"name":                     honoured("TestContainerSeesItsSpec"),
	"image":                    honoured("TestContainerSeesItsSpec"),
	"imagePullPolicy":          honoured("TestImageThatComesLater"),
	"command":                  honoured("TestContainerSeesItsSpec"),
	"args":                     honoured("TestContainerSeesItsSpec"),
	"workingDir":               honoured("TestWorkingDirAndStandardInput"),
	"env":                      listVerdict{structVerdict{"name": honoured("TestContainerSeesItsSpec"), "value": honoured("TestContainerSeesItsSpec"), "valueFrom": envSourceVerdicts}},
	"envFrom":                  honoured("TestVariablesFromObjects"),
	"ports":                    honoured("TestHostPort"),
	"resources":                resourceVerdicts,
	"resizePolicy":             listVerdict{structVerdict{"resourceName": honoured("TestResizeKeepsThePod"), "restartPolicy": honoured("TestResizeKeepsThePod")}},
	"volumeMounts":             listVerdict{mountVerdicts},
	"volumeDevices":            notYet("block devices are"),
	"livenessProbe":            probeVerdicts,
	"readinessProbe":           probeVerdicts,
	"startupProbe":             probeVerdicts,
	"lifecycle":                lifecycleVerdicts,
	"restartPolicy":            honoured("TestContainerRestartPolicies"),
	"restartPolicyRules":       honoured("TestRestartRules"),
	"securityContext":          containerSecurityVerdicts,
	"terminationMessagePath":   honoured("TestTerminationMessageElsewhere"),
	"terminationMessagePolicy": honoured("TestTerminationMessageElsewhere"),
	"stdin":                    honoured("TestWorkingDirAndStandardInput"),
	"stdinOnce":                honoured("TestWorkingDirAndStandardInput"),
	"tty":                      honoured("TestWorkingDirAndStandardInput"),
}

var lifecycleVerdicts = structVerdict{
	"postStart":  hookVerdicts("TestPostStart"),
	"preStop":    hookVerdicts("TestPreStop"),
	"stopSignal": honoured("TestStopSignal"),
}

func hookVerdicts(proof honoured) structVerdict {
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

// envSourceVerdicts: whether a variable's source is there is told when it is
// looked up.
var envSourceVerdicts = structVerdict{
	"fieldRef":         honoured("TestVariablesFromTheDownwardAPI"),
	"resourceFieldRef": honoured("TestVariablesFromTheDownwardAPI"),
	"configMapKeyRef":  honoured("TestVariablesFromObjects"),
	"secretKeyRef":     honoured("TestVariablesFromObjects"),
	"fileKeyRef":       honoured("TestVariablesFromAFile"),
}

var probeVerdicts = structVerdict{
	"exec": structVerdict{"command": honoured("TestProbeExecReadiness")},
	"httpGet": structVerdict{
		"path": honoured("TestProbeHTTPReadinessAfterStartup"), "port": honoured("TestProbeHTTPReadinessAfterStartup"), "host": honoured("TestProbesOfOtherHosts"), "scheme": honoured("TestProbesOfOtherHosts"),
		"httpHeaders": listVerdict{structVerdict{"name": honoured("TestProbesOfOtherHosts"), "value": honoured("TestProbesOfOtherHosts")}},
	},
	"tcpSocket":                     structVerdict{"port": honoured("TestProbeHTTPReadinessAfterStartup"), "host": honoured("TestProbesOfOtherHosts")},
	"grpc":                          structVerdict{"port": honoured("TestProbeGRPC"), "service": honoured("TestProbeGRPC")},
	"initialDelaySeconds":           honoured("TestProbesOfOtherHosts"),
	"timeoutSeconds":                honoured("TestProbeTimeoutEndsTheCommand"),
	"periodSeconds":                 honoured("TestProbesOfOtherHosts"),
	"successThreshold":              honoured("TestProbesOfOtherHosts"),
	"failureThreshold":              honoured("TestProbeLivenessRestarts"),
	"terminationGracePeriodSeconds": honoured("TestProbeGRPC"),
}

var podSecurityVerdicts = structVerdict{
	"runAsNonRoot":             honoured("TestSecurityContextThatCannotBe"),
	"runAsUser":                honoured("TestSecurityContext"),
	"runAsGroup":               honoured("TestSecurityContext"),
	"supplementalGroups":       honoured("TestSecurityContext"),
	"supplementalGroupsPolicy": honoured("TestSupplementalGroupsPolicy"),
	"fsGroup":                  honoured("TestFSGroup"),
	"fsGroupChangePolicy":      honoured("TestFSGroup"),
	"sysctls":                  listVerdict{structVerdict{"name": honoured("TestSysctls"), "value": honoured("TestSysctls")}},
	"seccompProfile":           seccompVerdicts,
	"appArmorProfile":          honoured("TestHostWithoutSecurityModules"),
	"seLinuxOptions":           honoured("TestHostWithoutSecurityModules"),
	"seLinuxChangePolicy":      inert("labels are always set file by file, which both policies allow"),
	"windowsOptions":           refused("is for Windows, and this is Linux; take the field out"),
}

var seccompVerdicts = structVerdict{
	"type":             honoured("TestSecurityContext"),
	"localhostProfile": honoured("TestSecurityContext"),
}

// containerSecurityVerdicts: what is spelled out as it is anyway is fine.
var containerSecurityVerdicts = structVerdict{
	"privileged":               honoured("TestSecurityContext"),
	"allowPrivilegeEscalation": honoured("TestSecurityContext"),
	"readOnlyRootFilesystem":   honoured("TestSecurityContext"),
	"runAsNonRoot":             honoured("TestSecurityContextThatCannotBe"),
	"runAsUser":                honoured("TestSecurityContext"),
	"runAsGroup":               honoured("TestSecurityContext"),
	"procMount":                honoured("TestUserNamespace"),
	"capabilities":             honoured("TestSecurityContext"),
	"seccompProfile":           seccompVerdicts,
	"appArmorProfile":          honoured("TestHostWithoutSecurityModules"),
	"seLinuxOptions":           honoured("TestHostWithoutSecurityModules"),
	"windowsOptions":           refused("is for Windows, and this is Linux; take the field out"),
}

var resourceVerdicts = boundsVerdict{structVerdict{
	"limits":   quantityVerdicts,
	"requests": quantityVerdicts,
	"claims":   clusterDevices,
}}

// clusterDevices is what is said of devices that a scheduler hands out.
const clusterDevices refused = "names a device that only a cluster's scheduler and its drivers hand out; take it out and mount the device with a hostPath"

var quantityVerdicts = mapVerdict{
	string(v1.ResourceCPU):              honoured("TestContainerSeesItsSpec"),
	string(v1.ResourceMemory):           honoured("TestContainerSeesItsSpec"),
	string(v1.ResourceEphemeralStorage): honoured("TestLocalStorageLimits"),
	v1.ResourceHugePagesPrefix + "*":    honoured("TestHugePages"),
	"*":                                 clusterDevices,
}

// podResourceVerdicts: no other resource than these is valid for a whole pod.
var podResourceVerdicts = boundsVerdict{structVerdict{
	"limits":   podQuantityVerdicts,
	"requests": podQuantityVerdicts,
	"claims":   clusterDevices,
}}

var podQuantityVerdicts = mapVerdict{
	string(v1.ResourceCPU):           honoured("TestPodLevelResources"),
	string(v1.ResourceMemory):        honoured("TestPodLevelResources"),
	v1.ResourceHugePagesPrefix + "*": honoured("TestHugePages"),
	"*":                              clusterDevices,
}

var overheadVerdicts = mapVerdict{
	string(v1.ResourceCPU):    honoured("TestPodLevelResources"),
	string(v1.ResourceMemory): honoured("TestPodLevelResources"),
	"*":                       refused("is no overhead of a pod here; give its cpu and memory"),
}

var mountVerdicts = structVerdict{
	"name":              honoured("TestContainerSeesItsSpec"),
	"mountPath":         honoured("TestContainerSeesItsSpec"),
	"readOnly":          honoured("TestContainerSeesItsSpec"),
	"subPath":           honoured("TestSubPaths"),
	"subPathExpr":       honoured("TestSubPaths"),
	"mountPropagation":  honoured("TestMountPropagation"),
	"recursiveReadOnly": honoured("TestRecursiveReadOnly"),
}

var volumeVerdicts = structVerdict{
	"name":     honoured("TestContainerSeesItsSpec"),
	"hostPath": honoured("TestContainerSeesItsSpec"),
	"emptyDir": structVerdict{
		"medium":    honoured("TestEmptyDirInMemory"),
		"sizeLimit": honoured("TestLocalStorageLimits"),
	},

	"configMap":             honoured("TestObjectVolumes"),
	"secret":                honoured("TestObjectVolumes"),
	"downwardAPI":           honoured("TestDownwardVolume"),
	"projected":             projectedVerdicts,
	"image":                 honoured("TestImageVolume"),
	"persistentVolumeClaim": honoured("TestPersistentVolumes"),
	"ephemeral":             refused("needs a storage driver that only a cluster has; use an emptyDir, which lives as long as the pod too, or a persistentVolumeClaim"),
	"csi":                   clusterStorage,
	"nfs":                   honoured("TestNFSByTheHostsProgram"),
	"iscsi":                 clusterStorage,
	"fc":                    clusterStorage,
	"flexVolume":            clusterStorage,
	"gitRepo":               refused("is not offered by Kubernetes any more; clone in an init container into an emptyDir"),
	"cephfs":                clusterStorage,
	"rbd":                   clusterStorage,
	"glusterfs":             clusterStorage,
	"cinder":                clusterStorage,
	"flocker":               clusterStorage,
	"quobyte":               clusterStorage,
	"storageos":             clusterStorage,
	"portworxVolume":        clusterStorage,
	"scaleIO":               clusterStorage,
	"awsElasticBlockStore":  clusterStorage,
	"gcePersistentDisk":     clusterStorage,
	"azureDisk":             clusterStorage,
	"azureFile":             clusterStorage,
	"vsphereVolume":         clusterStorage,
	"photonPersistentDisk":  clusterStorage,
}

var projectedVerdicts = structVerdict{
	"defaultMode": honoured("TestObjectVolumes"),
	"sources":     listVerdict{projectedSourceVerdicts},
}

var projectedSourceVerdicts = structVerdict{
	"configMap":           honoured("TestObjectVolumes"),
	"secret":              honoured("TestObjectVolumes"),
	"downwardAPI":         honoured("TestObjectVolumes"),
	"serviceAccountToken": refused("needs an API server that issues tokens; put a token into a Secret and project that"),
	"clusterTrustBundle":  refused("needs an API server that keeps trust bundles; put the certificates into a ConfigMap and project that"),
	"podCertificate":      refused("needs an API server that signs certificates; put the certificate into a Secret and project that"),
}
