package tidemark.parquet;

import com.github.luben.zstd.Zstd;
import com.github.luben.zstd.ZstdCompressCtx;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.Arrays;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.iceberg.shaded.org.apache.parquet.bytes.BytesInput;
import org.apache.iceberg.shaded.org.apache.parquet.hadoop.CodecFactory.BytesCompressor;
import org.apache.iceberg.shaded.org.apache.parquet.hadoop.metadata.CompressionCodecName;

/**
 * Compresses a page by one call of zstd, which is told its length.
 *
 * <p>Parquet's own makes a stream for each page: it copies the page into a window that is allocated for it, and zstd
 * finds less in it.
 */
final class ZstdPages extends BytesCompressor {
  private static final int LARGE = 4 << 20; // bytes of a page beyond which no copy of it is made
  private static final ConcurrentLinkedQueue<Press> IDLE = new ConcurrentLinkedQueue<>(); // as many as tasks write

  private final BytesCompressor streams;
  private final int level;

  ZstdPages(BytesCompressor streams, int level) {
    this.streams = streams;
    this.level = level;
  }

  @Override
  public BytesInput compress(BytesInput page) throws IOException {
    if (page.size() > LARGE) {
      return streams.compress(page);
    }
    Press found = IDLE.poll();
    Press press = found == null ? new Press() : found;
    try {
      return press.press(page, level);
    } finally { // one that has failed is as new at its next page; lost, it would keep its native memory
      IDLE.add(press);
    }
  }

  @Override
  public CompressionCodecName getCodecName() {
    return CompressionCodecName.ZSTD;
  }

  @Override
  public void release() {
    streams.release();
  }

  /** What one page after the other is compressed with. */
  private static final class Press extends ByteArrayOutputStream {
    private final ZstdCompressCtx context = new ZstdCompressCtx();
    private byte[] out = new byte[0];

    BytesInput press(BytesInput page, int level) throws IOException {
      reset();
      page.writeAllTo(this);
      int most = (int) Zstd.compressBound(count);
      if (out.length < most) {
        out = new byte[most];
      }
      int length = context.setLevel(level).compressByteArray(out, 0, most, buf, 0, count);
      return BytesInput.from(Arrays.copyOf(out, length));
    }
  }
}
