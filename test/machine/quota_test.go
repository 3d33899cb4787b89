package machine

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// quotaDocuments are a class on a disk with project quotas, a claim of it for each of some names,
// and a claim on the root, which has none.
func quotaDocuments(size string, names ...string) string {
	const claim = "---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: %s}\nspec: {accessModes: " +
		"[ReadWriteOnce], resources: {requests: {storage: %s}}%s}\n"
	text := `apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: quota}
provisioner: podstead.io/directory
parameters: {path: /mnt/quota/claims, mountPoint: /mnt/quota}
reclaimPolicy: Retain
` + fmt.Sprintf(claim, "plain", size, "")
	for _, name := range names {
		text += fmt.Sprintf(claim, name, size, ", storageClassName: quota")
	}
	return text
}

func quotaPod(name string, claims ...string) testPod {
	var volumes, mounts []string
	for _, claim := range claims {
		volumes = append(volumes, fmt.Sprintf("{name: %[1]s, persistentVolumeClaim: {claimName: %[1]s}}", claim))
		mounts = append(mounts, fmt.Sprintf("{name: %[1]s, mountPath: /%[1]s}", claim))
	}
	return testPod{
		name: name, revision: "1",
		spec:      ", volumes: [" + strings.Join(volumes, ", ") + "]",
		container: ", volumeMounts: [" + strings.Join(mounts, ", ") + "]",
	}
}

// fill writes up to 60 MiB to a file of a claim, and returns how many MiB it has then.
func fill(m *Machine, pod, file string) int {
	m.t.Helper()
	out := m.Sh(fmt.Sprintf("podstead exec %s -- sh -c 'dd if=/dev/zero of=%s bs=1048576 count=60 2>/dev/null; stat -c "+
		"%%s %s'", pod, file, file))
	size, err := strconv.Atoi(strings.TrimSpace(out))
	if err != nil {
		m.t.Fatal(err)
	}
	return size >> 20
}

// projectOf returns the project ID of the directory of a claim.
func projectOf(m *Machine, claim string) string {
	m.t.Helper()
	fields := strings.Fields(m.Sh("lsattr -pd /mnt/quota/claims/default/" + claim))
	if len(fields) != 3 || !strings.Contains(fields[1], "P") {
		m.t.Fatalf("the attributes of claim %s are %q", claim, fields)
	}
	return fields[0]
}

// The sizes of claims on a disk with project quotas are enforced, also after a boot. IDs of others are
// not used, and that of a claim that was removed is free again.
func testProjectQuotas(m *Machine) {
	t := m.t
	const reserved, first, second = "1879048192", "1879048193", "1879048194"
	mountQuotaDisk(m)
	m.Sh("mkdir /mnt/quota/claims && echo " + reserved + ":/srv/other >/etc/projects")
	m.Write("/etc/pods/storage.yaml", quotaDocuments("20Mi", "one"))
	apply(m, quotaPod("a", "one"))
	awaitReady(m, settle, "a")
	m.Write("/etc/pods/storage.yaml", quotaDocuments("20Mi", "one", "two"))
	apply(m, quotaPod("b", "two", "plain"))
	awaitReady(m, settle, "a", "b")
	if one, two := projectOf(m, "one"), projectOf(m, "two"); one != first || two != second {
		t.Errorf("the claims have the projects %s and %s, want %s and %s", one, two, first, second)
	}
	if size := fill(m, "a", "/one/file"); size < 18 || size > 20 {
		t.Errorf("a claim of 20 MiB has %d MiB", size)
	}
	if size := fill(m, "b", "/two/file"); size < 18 || size > 20 {
		t.Errorf("another claim of 20 MiB has %d MiB", size)
	}
	if size := fill(m, "b", "/plain/file"); size != 60 {
		t.Errorf("a claim without a quota has %d MiB", size)
	}
	if out := m.Sh("podstead exec a -- sh -c \"df -P -k /one | tail -n 1 | awk '{print \\$2}'\""); out != "20480" {
		t.Errorf("the container sees a file system of %q KiB", out)
	}
	m.Await("the volumes are shown", settle, func() error {
		for claim, want := range map[string]string{"one": "yes 20.0 MiB 20.0 MiB", "two": "yes 20.0 MiB 20.0 MiB",
			"plain": "no 60.0 MiB"} {
			out, err := m.Try("podstead volumes | awk '$2 == \"" + claim + "\"'")
			if err != nil || !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
				return fmt.Errorf("%s: %v %q", claim, err, out)
			}
		}
		return nil
	})

	// A request that grows is in force when the containers start again.
	m.Write("/etc/pods/storage.yaml", quotaDocuments("30Mi", "one", "two"))
	m.Reboot()
	awaitReady(m, settle, "a", "b")
	if one := projectOf(m, "one"); one != first {
		t.Errorf("after the boot the claim has project %s, had %s", one, first)
	}
	if size := fill(m, "a", "/one/more"); size < 8 || size > 10 {
		t.Errorf("a claim that grew by 10 MiB has %d MiB more", size)
	}

	m.Sh("rm /etc/pods/a.yaml")
	m.Await("the claim is removed", settle,
		func() error { _, err := m.Try("podstead volumes rm default/one"); return err })
	m.Write("/etc/pods/storage.yaml", quotaDocuments("30Mi", "next", "two"))
	apply(m, quotaPod("c", "next"))
	awaitReady(m, settle, "b", "c")
	if next := projectOf(m, "next"); next != first {
		t.Errorf("a new claim has project %s, want that of the removed one, %s", next, first)
	}
	if events := m.Sh("podstead events"); strings.Contains(events, "VolumeSizeNotEnforced") {
		t.Error(events)
	}
	m.Sh("rm /etc/pods/b.yaml /etc/pods/c.yaml")
	awaitInstances(m, nil, settle)
	awaitUnmounted(m, "/mnt/quota")
}

// mountQuotaDisk mounts a disk with project quotas on /mnt/quota, also after a boot.
func mountQuotaDisk(m *Machine) {
	m.Sh(`modprobe loop && echo loop >/etc/modules-load.d/quota.conf
truncate -s 256M /root/quota.img && mke2fs -q -t ext4 -I 256 -O quota,project -E quotatype=prjquota /root/quota.img
mkdir -p /mnt/quota && echo '/root/quota.img /mnt/quota ext4 loop,prjquota,nofail 0 0' >>/etc/fstab
systemctl daemon-reload && mount /mnt/quota`)
}

func awaitUnmounted(m *Machine, path string) {
	m.Await(path+" is not in use", settle, func() error {
		if out, err := m.Try("umount " + path); err != nil {
			return errors.New(out)
		}
		return nil
	})
}

// The emptyDirs of pods whose directories are on a disk with project quotas cannot fill it: a pod that writes
// more than it may gets no space at once, and is evicted. Its project is free again then.
func testEmptyDirQuotas(m *Machine) {
	t := m.t
	mountQuotaDisk(m)
	m.Sh("systemctl stop podstead && mkdir /mnt/quota/pods && mount --bind /mnt/quota/pods /var/lib/podstead/pods && " +
		"systemctl start podstead")
	const first = "1879048192"
	for name, c := range map[string]struct{ source, limits, why string }{
		"sized": {"{sizeLimit: 10Mi}", "", `emptyDir volume "cache"`},
		"shared": {"{}", ", resources: {limits: {ephemeral-storage: 10Mi}}",
			"exceeds the total limit of its containers 10Mi"},
	} {
		apply(m, testPod{name: name, revision: "1", spec: ", volumes: [{name: cache, emptyDir: " + c.source + "}]",
			container: ", volumeMounts: [{name: cache, mountPath: /cache}]" + c.limits})
		awaitReady(m, settle, name)
		dir := m.Sh("ls -d /mnt/quota/pods/*/volumes/kubernetes.io~empty-dir/cache")
		if fields := strings.Fields(m.Sh("lsattr -pd " + dir)); len(fields) != 3 || fields[0] != first ||
			!strings.Contains(fields[1], "P") {
			t.Errorf("%s: the attributes of the emptyDir are %q", name, fields)
		}
		// The pod may be evicted before dd has ended.
		_, _ = m.Try("podstead exec " + name + " -- dd if=/dev/zero of=/cache/file bs=65536 count=960")
		used, err := strconv.Atoi(m.Sh("df -P -k /mnt/quota | tail -n 1 | awk '{print $3}'"))
		if err != nil || used > 15<<10 {
			t.Errorf("%s: the disk has %d KiB, %v", name, used, err)
		}
		m.Await("the pod is evicted", settle, func() error {
			if out := m.Sh("podstead events --for " + name); !strings.Contains(out, "Evicted") || !strings.Contains(out, c.why) {
				return errors.New(out)
			}
			return nil
		})
		m.Sh("rm /etc/pods/" + name + ".yaml")
		awaitInstances(m, nil, settle)
		m.Await("the pod is removed", settle, func() error {
			if out := m.Sh("ls /mnt/quota/pods"); out != "" {
				return errors.New(out)
			}
			return nil
		})
	}
	if events := m.Sh("podstead events"); strings.Contains(events, "VolumeSizeNotEnforced") {
		t.Error(events)
	}
	m.Sh("systemctl stop podstead")
	awaitUnmounted(m, "/var/lib/podstead/pods")
	m.Sh("systemctl start podstead")
	awaitUnmounted(m, "/mnt/quota")
}
