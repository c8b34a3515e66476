package tidemark.parquet;

/** What the table's properties say of pages; shared by the columns of a file, with arrays that each uses in turn. */
final class Limits {
  private final int pageRows;
  private final int pageBytes;
  private final int dictionaryBytes;
  private final boolean dictionary;
  private int[] numbers = new int[0];
  private byte[] plain = new byte[0];
  private boolean over;
  private long taken;

  Limits(int pageRows, int pageBytes, int dictionaryBytes, boolean dictionary) {
    this.pageRows = pageRows;
    this.pageBytes = pageBytes;
    this.dictionaryBytes = dictionaryBytes;
    this.dictionary = dictionary;
  }

  int pageRows() {
    return pageRows;
  }

  int pageBytes() {
    return pageBytes;
  }

  int dictionaryBytes() {
    return dictionaryBytes;
  }

  boolean dictionary() {
    return dictionary;
  }

  /** A value was taken that had so many bytes in its row. */
  void took(int bytes) {
    taken += bytes;
  }

  /** Bytes of all texts, bytes and elements of lists. */
  long taken() {
    return taken;
  }

  /** A column holds a whole page: to be looked at after this row. */
  void over() {
    over = true;
  }

  boolean isOver() {
    return over;
  }

  void looked() {
    over = false;
  }

  /** Room for the plain values of a page, until the next call. */
  byte[] plain(int size) {
    if (plain.length < size) {
      plain = new byte[size];
    }
    return plain;
  }

  /** Bytes that the arrays take. */
  long room() {
    return plain.length + 4L * numbers.length;
  }

  void release() {
    plain = new byte[0];
    numbers = new int[0];
  }

  /** Room for so many numbers, until the next call. */
  int[] numbers(int count) {
    if (numbers.length < count) {
      numbers = new int[Math.max(count, 1024)];
    }
    return numbers;
  }
}
