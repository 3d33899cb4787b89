package manifest

import (
	"maps"

	v1 "k8s.io/api/core/v1"
)

// Why a field is accepted.
const (
	// honoured fields do here what they do under a kubelet.
	honoured accepted = "honoured"
	// bookkeeping fields belong to the API server or to other tools. Nothing
	// about a running pod depends on them.
	bookkeeping accepted = "bookkeeping"
	// placing fields choose a node or a scheduler. A manifest has been placed
	// by whoever put it here, and this node has no taints to tolerate.
	placing accepted = "placing"
	// elsewhere fields are settled before this table is asked.
	elsewhere accepted = "elsewhere"
)

// podVerdicts is the one place that says what this version honours of a Pod.
// An issue that builds a feature turns its verdict here. A test fails when the
// API has a field without a verdict, or a verdict has no field.
var podVerdicts = structVerdict{
	"kind":       elsewhere,
	"apiVersion": elsewhere,
	"metadata":   metadataVerdicts,
	"spec":       specVerdicts,
	// The status in a manifest is that of another pod, as written by
	// kubectl get -o yaml; the one of this pod is generated.
	"status": bookkeeping,
}

var metadataVerdicts = structVerdict{
	"name":        honoured,
	"namespace":   honoured,
	"uid":         honoured,
	"labels":      honoured,
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
	"deletionTimestamp":          refused("manifests of pods that are being deleted are"),
	"deletionGracePeriodSeconds": refused("manifests of pods that are being deleted are"),
}

// annotationVerdicts: annotations are carried to the runtime as they are.
// Those that were settings before there were fields for them are not.
var annotationVerdicts = mapVerdict{
	"*":                            honoured,
	AnnotationMirror:               refused("API servers' copies of static pods are"),
	annotationSeccomp:              refused("seccomp profiles are"),
	annotationSeccompPrefix + "*":  refused("seccomp profiles are"),
	annotationAppArmorPrefix + "*": refused("AppArmor profiles are"),
}

var specVerdicts = structVerdict{
	"containers":                    listVerdict{containerVerdicts},
	"initContainers":                listVerdict{initVerdicts},
	"ephemeralContainers":           refused("ephemeral containers are"),
	"volumes":                       listVerdict{volumeVerdicts},
	"restartPolicy":                 honoured,
	"terminationGracePeriodSeconds": honoured,
	"activeDeadlineSeconds":         refused("deadlines are"),
	"hostNetwork":                   honoured,
	"hostPID":                       refused("sharing the host's processes is"),
	"hostIPC":                       refused("sharing the host's IPC is"),
	"hostUsers":                     unless("user namespaces are", true),
	"shareProcessNamespace":         unless("sharing processes between containers is", false),
	"securityContext":               podSecurityVerdicts,
	"dnsPolicy":                     unless("DNS policies other than ClusterFirst are", v1.DNSClusterFirst),
	"dnsConfig":                     refused("DNS settings of a pod are"),
	"hostname":                      refused("hostnames other than the pod's name are"),
	"subdomain":                     refused("subdomains are"),
	"setHostnameAsFQDN":             unless("fully qualified hostnames are", false),
	"hostnameOverride":              refused("hostnames other than the pod's name are"),
	"hostAliases":                   refused("host aliases are"),
	"imagePullSecrets":              refused("pull secrets are"),
	"resources":                     refused("resources of the pod as a whole are"),
	"resourceClaims":                refused("resource claims are"),
	"overhead":                      refused("overhead of a pod is"),
	"runtimeClassName":              refused("runtime classes are"),
	"readinessGates":                refused("readiness gates are"),
	"priority":                      unless("priorities are", int32(0)),
	"priorityClassName":             refused("priority classes are"),
	"os":                            structVerdict{"name": unless("systems other than linux are", v1.Linux)},

	// A static pod has no service account: the kubelet refuses one, and
	// never mounts a token.
	"serviceAccountName":           refused("service accounts are"),
	"serviceAccount":               accepted("the same as serviceAccountName"),
	"automountServiceAccountToken": unless("service account tokens are", false),
	// Without a cluster there are no services to make variables of.
	"enableServiceLinks": accepted("no services"),

	"nodeName":                  placing,
	"schedulerName":             placing,
	"tolerations":               placing,
	"preemptionPolicy":          unless("preemption policies are", v1.PreemptLowerPriority),
	"nodeSelector":              refused("node selectors are"),
	"affinity":                  refused("affinities are"),
	"topologySpreadConstraints": refused("topology spread constraints are"),
	"schedulingGates":           refused("scheduling gates are"),
	"schedulingGroup":           refused("scheduling groups are"),
}

var containerVerdicts = structVerdict{
	"name":                     honoured,
	"image":                    honoured,
	"imagePullPolicy":          honoured,
	"command":                  honoured,
	"args":                     honoured,
	"workingDir":               refused("working directories other than the image's are"),
	"env":                      listVerdict{structVerdict{"name": honoured, "value": honoured, "valueFrom": refused("variables with a source are")}},
	"envFrom":                  refused("variables from ConfigMaps and Secrets are"),
	"ports":                    honoured,
	"resources":                resourceVerdicts,
	"resizePolicy":             refused("resizing a running container is"),
	"volumeMounts":             listVerdict{mountVerdicts},
	"volumeDevices":            refused("block devices are"),
	"livenessProbe":            probeVerdicts,
	"readinessProbe":           probeVerdicts,
	"startupProbe":             probeVerdicts,
	"lifecycle":                refused("lifecycle hooks are"),
	"restartPolicy":            refused("restart policies of a container, sidecars included, are"),
	"restartPolicyRules":       refused("restart rules are"),
	"securityContext":          containerSecurityVerdicts,
	"terminationMessagePath":   unless("termination messages at other paths are", v1.TerminationMessagePathDefault),
	"terminationMessagePolicy": unless("termination messages from logs are", v1.TerminationMessageReadFile),
	"stdin":                    refused("standard input of a container is"),
	"stdinOnce":                refused("standard input of a container is"),
	"tty":                      refused("terminals for a container are"),
}

// initVerdicts: only sidecars among init containers may have probes at all.
var initVerdicts = func() structVerdict {
	verdicts := maps.Clone(containerVerdicts)
	for _, name := range []string{"livenessProbe", "readinessProbe", "startupProbe"} {
		verdicts[name] = refused("probes of init containers are")
	}
	return verdicts
}()

var probeVerdicts = structVerdict{
	"exec": structVerdict{"command": honoured},
	"httpGet": structVerdict{
		"path": honoured, "port": honoured, "host": honoured, "scheme": honoured,
		"httpHeaders": listVerdict{structVerdict{"name": honoured, "value": honoured}},
	},
	"tcpSocket":                     structVerdict{"port": honoured, "host": honoured},
	"grpc":                          structVerdict{"port": honoured, "service": honoured},
	"initialDelaySeconds":           honoured,
	"timeoutSeconds":                honoured,
	"periodSeconds":                 honoured,
	"successThreshold":              honoured,
	"failureThreshold":              honoured,
	"terminationGracePeriodSeconds": honoured,
}

var podSecurityVerdicts = structVerdict{
	"runAsNonRoot":             unless("refusing to run as root is", false),
	"runAsUser":                refused("users other than the image's are"),
	"runAsGroup":               refused("groups other than the image's are"),
	"supplementalGroups":       refused("supplemental groups are"),
	"supplementalGroupsPolicy": unless("supplemental groups are", v1.SupplementalGroupsPolicyMerge),
	"fsGroup":                  refused("group ownership of volumes is"),
	"fsGroupChangePolicy":      refused("group ownership of volumes is"),
	"sysctls":                  refused("kernel parameters are"),
	"seccompProfile":           refused("seccomp profiles are"),
	"appArmorProfile":          refused("AppArmor profiles are"),
	"seLinuxOptions":           refused("SELinux options are"),
	"seLinuxChangePolicy":      refused("SELinux options are"),
	"windowsOptions":           refused("Windows containers are"),
}

// containerSecurityVerdicts: what is spelled out as it is anyway is fine.
var containerSecurityVerdicts = structVerdict{
	"privileged":               unless("privileged containers are", false),
	"allowPrivilegeEscalation": unless("forbidding privilege escalation is", true),
	"readOnlyRootFilesystem":   unless("read-only root filesystems are", false),
	"runAsNonRoot":             unless("refusing to run as root is", false),
	"runAsUser":                refused("users other than the image's are"),
	"runAsGroup":               refused("groups other than the image's are"),
	"procMount":                unless("kinds of /proc other than Default are", v1.DefaultProcMount),
	"capabilities":             refused("capabilities are"),
	"seccompProfile":           refused("seccomp profiles are"),
	"appArmorProfile":          refused("AppArmor profiles are"),
	"seLinuxOptions":           refused("SELinux options are"),
	"windowsOptions":           refused("Windows containers are"),
}

var resourceVerdicts = boundsVerdict{structVerdict{
	"limits":   quantityVerdicts,
	"requests": quantityVerdicts,
	"claims":   refused("resource claims are"),
}}

var quantityVerdicts = mapVerdict{
	string(v1.ResourceCPU):              honoured,
	string(v1.ResourceMemory):           honoured,
	string(v1.ResourceEphemeralStorage): refused("bounds on a container's storage are"),
	v1.ResourceHugePagesPrefix + "*":    refused("hugepages are"),
	"*":                                 refused("extended resources are"),
}

var mountVerdicts = structVerdict{
	"name":              honoured,
	"mountPath":         honoured,
	"readOnly":          honoured,
	"subPath":           refused("mounts of a part of a volume are"),
	"subPathExpr":       refused("mounts of a part of a volume are"),
	"mountPropagation":  unless("mount propagation is", v1.MountPropagationNone),
	"recursiveReadOnly": unless("recursive read-only mounts are", v1.RecursiveReadOnlyDisabled),
}

var volumeVerdicts = structVerdict{
	"name":     honoured,
	"hostPath": honoured,
	"emptyDir": structVerdict{
		"medium":    refused("emptyDir volumes in memory or hugepages are"),
		"sizeLimit": refused("size limits of emptyDir volumes are"),
	},

	"configMap":             refused("ConfigMaps are"),
	"secret":                refused("Secrets are"),
	"downwardAPI":           refused("downwardAPI volumes are"),
	"projected":             refused("projected volumes are"),
	"image":                 refused("image volumes are"),
	"persistentVolumeClaim": refused("persistent volume claims are"),
	"ephemeral":             refused("ephemeral volumes are"),
	"csi":                   refused("CSI volumes are"),
	"nfs":                   refused("NFS volumes are"),
	"iscsi":                 refused("iSCSI volumes are"),
	"fc":                    refused("Fibre Channel volumes are"),
	"flexVolume":            refused("FlexVolumes are"),
	"gitRepo":               refused("gitRepo volumes are"),
	"cephfs":                refused("CephFS volumes are"),
	"rbd":                   refused("Ceph RBD volumes are"),
	"glusterfs":             refused("GlusterFS volumes are"),
	"cinder":                refused("Cinder volumes are"),
	"flocker":               refused("Flocker volumes are"),
	"quobyte":               refused("Quobyte volumes are"),
	"storageos":             refused("StorageOS volumes are"),
	"portworxVolume":        refused("Portworx volumes are"),
	"scaleIO":               refused("ScaleIO volumes are"),
	"awsElasticBlockStore":  refused("AWS disks are"),
	"gcePersistentDisk":     refused("GCE disks are"),
	"azureDisk":             refused("Azure disks are"),
	"azureFile":             refused("Azure file shares are"),
	"vsphereVolume":         refused("vSphere volumes are"),
	"photonPersistentDisk":  refused("Photon disks are"),
}
