import com.github.shyiko.mysql.binlog.BinaryLogFileReader;
import com.github.shyiko.mysql.binlog.event.DeleteRowsEventData;
import com.github.shyiko.mysql.binlog.event.Event;
import com.github.shyiko.mysql.binlog.event.EventData;
import com.github.shyiko.mysql.binlog.event.EventType;
import com.github.shyiko.mysql.binlog.event.TableMapEventData;
import com.github.shyiko.mysql.binlog.event.UpdateRowsEventData;
import com.github.shyiko.mysql.binlog.event.WriteRowsEventData;
import com.github.shyiko.mysql.binlog.event.deserialization.EventDeserializer;
import com.github.shyiko.mysql.binlog.event.deserialization.NullEventDataDeserializer;
import com.github.shyiko.mysql.binlog.event.deserialization.json.JsonBinary;
import com.sun.management.OperatingSystemMXBean;
import java.io.File;
import java.io.IOException;
import java.io.Serializable;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.BitSet;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Reads a log with mysql-binlog-connector-java, every row to values and documents to text, several times in one
 * process; prints rows, events and the CPU seconds of the last time, when the code has been compiled. The library
 * takes checksums off and does not verify them. With the argument "values" it first prints each row image of the last
 * time: the table, and its values as n:number, s:bytes in hex, or - for NULL.
 */
public final class Decode {
    private static final byte JSON = (byte) 245;

    private final Map<Long, byte[]> columnTypes = new HashMap<>();
    private final Map<Long, String> names = new HashMap<>();
    private boolean showsValues;
    private long rows;
    private long events;

    public static void main(String[] arguments) throws IOException {
        OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        for (int passes = Integer.parseInt(arguments[1]); passes > 0; passes--) {
            long begin = system.getProcessCpuTime();
            Decode decode = new Decode();
            decode.showsValues = passes == 1 && arguments.length > 2 && arguments[2].equals("values");
            decode.read(new File(arguments[0]));
            double seconds = (system.getProcessCpuTime() - begin) / 1e9;
            if (passes == 1) {
                System.out.println(decode.rows + " " + decode.events + " " + seconds);
            }
        }
    }

    private void read(File log) throws IOException {
        EventDeserializer deserializer = new EventDeserializer();
        if (showsValues) {
            deserializer.setCompatibilityMode(
                EventDeserializer.CompatibilityMode.DATE_AND_TIME_AS_LONG_MICRO,
                EventDeserializer.CompatibilityMode.CHAR_AND_BINARY_AS_BYTE_ARRAY);
        } else {
            deserializer.setCompatibilityMode(EventDeserializer.CompatibilityMode.DATE_AND_TIME_AS_LONG_MICRO);
        }
        deserializer.setEventDataDeserializer(EventType.PREVIOUS_GTIDS, new NullEventDataDeserializer()); // 9.7 has tags
        try (BinaryLogFileReader reader = new BinaryLogFileReader(log, deserializer)) {
            for (Event event = reader.readEvent(); event != null; event = reader.readEvent()) {
                events++;
                count(event.getData());
            }
        }
    }

    private void count(EventData data) throws IOException {
        if (data instanceof TableMapEventData) {
            TableMapEventData table = (TableMapEventData) data;
            columnTypes.put(table.getTableId(), table.getColumnTypes());
            names.put(table.getTableId(), table.getTable());
        } else if (data instanceof WriteRowsEventData) {
            WriteRowsEventData change = (WriteRowsEventData) data;
            images(change.getTableId(), change.getIncludedColumns(), change.getRows());
            rows += change.getRows().size();
        } else if (data instanceof DeleteRowsEventData) {
            DeleteRowsEventData change = (DeleteRowsEventData) data;
            images(change.getTableId(), change.getIncludedColumns(), change.getRows());
            rows += change.getRows().size();
        } else if (data instanceof UpdateRowsEventData) {
            UpdateRowsEventData change = (UpdateRowsEventData) data;
            for (Map.Entry<Serializable[], Serializable[]> row : change.getRows()) {
                images(change.getTableId(), change.getIncludedColumnsBeforeUpdate(), Collections.singletonList(row.getKey()));
                images(change.getTableId(), change.getIncludedColumns(), Collections.singletonList(row.getValue()));
            }
            rows += change.getRows().size();
        }
    }

    /** Documents to text. An image has a place for each of the columns that it includes. */
    private void images(long table, BitSet included, List<Serializable[]> images) throws IOException {
        byte[] types = columnTypes.get(table);
        int place = 0;
        for (int column = included.nextSetBit(0); column >= 0; column = included.nextSetBit(column + 1), place++) {
            if (types[column] != JSON) {
                continue;
            }
            for (Serializable[] image : images) {
                if (image[place] != null) {
                    image[place] = JsonBinary.parseAsString((byte[]) image[place]);
                }
            }
        }
        if (showsValues) {
            for (Serializable[] image : images) {
                StringBuilder line = new StringBuilder(names.get(table));
                for (Serializable value : image) {
                    line.append('\t').append(text(value));
                }
                System.out.println(line);
            }
        }
    }

    private static String text(Serializable value) {
        if (value == null) {
            return "-";
        }
        if (value instanceof BitSet) {
            long[] words = ((BitSet) value).toLongArray();
            return "n:" + Long.toUnsignedString(words.length == 0 ? 0 : words[0]);
        }
        if (value instanceof Number) {
            return "n:" + value;
        }
        byte[] bytes = value instanceof byte[] ? (byte[]) value : value.toString().getBytes(StandardCharsets.UTF_8);
        StringBuilder hex = new StringBuilder("s:");
        for (byte one : bytes) {
            hex.append(String.format("%02x", one));
        }
        return hex.toString();
    }
}
