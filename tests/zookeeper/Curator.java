import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.RetryOneTime;

/**
 * A client of another library: the locks of Curator.
 *
 * <p>Reads calls from its input, one a line: {@code WHO acquire mutex|read|write|multi KEY[,KEY..] SECONDS} and
 * {@code WHO release}. Each WHO is a thread of its own, because a lock of Curator belongs to a thread, and has one lock
 * at a time. Prints {@code WHO true|false|released|EXCEPTION}.
 */
public class Curator {
    private static CuratorFramework client;
    /** The lock of each thread. */
    private static final Map<String, InterProcessLock> held = new ConcurrentHashMap<>();

    public static void main(String[] arguments) throws Exception {
        client = CuratorFrameworkFactory.builder().connectString(arguments[0]).sessionTimeoutMs(2000)
                .connectionTimeoutMs(20000).retryPolicy(new RetryOneTime(100)).build();
        client.start();
        client.blockUntilConnected();
        System.out.println("ready");
        Map<String, ExecutorService> threads = new ConcurrentHashMap<>();
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().split(" ");
            threads.computeIfAbsent(words[0], who -> Executors.newSingleThreadExecutor())
                    .execute(() -> System.out.println(words[0] + " " + answer(words)));
        }
        Runtime.getRuntime().halt(0);
    }

    private static String answer(String[] words) {
        try {
            if (words[1].equals("release")) {
                held.remove(words[0]).release();
                return "released";
            }
            InterProcessLock lock = lock(words[2], words[3].split(","));
            boolean acquired = lock.acquire((long) (Double.parseDouble(words[4]) * 1000), TimeUnit.MILLISECONDS);
            if (acquired) {
                held.put(words[0], lock);
            }
            return String.valueOf(acquired);
        } catch (Exception exception) {
            return exception.toString();
        }
    }

    private static InterProcessLock lock(String kind, String[] keys) {
        String path = "/locks/" + keys[0];
        switch (kind) {
            case "mutex":
                return new InterProcessMutex(client, path);
            case "read":
                return new InterProcessReadWriteLock(client, path).readLock();
            case "write":
                return new InterProcessReadWriteLock(client, path).writeLock();
            default:
                List<InterProcessLock> locks = new ArrayList<>();
                for (String key : keys) {
                    locks.add(new InterProcessMutex(client, "/locks/" + key));
                }
                return new InterProcessMultiLock(locks);
        }
    }
}
