package org.apache.iceberg.formats;

import org.apache.iceberg.FileFormat;
import org.apache.iceberg.util.Pair;

/** Takes the place of a format model; `FormatModelRegistry.register` only takes what is not there yet. */
public final class FormatModels {
  private FormatModels() {}

  @SuppressWarnings("unchecked")
  public static <D, S> FormatModel<D, S> registered(FileFormat format, Class<D> type) {
    return (FormatModel<D, S>) FormatModelRegistry.models().get(Pair.of(format, type));
  }

  public static void replace(FormatModel<?, ?> model) {
    FormatModelRegistry.models().put(Pair.of(model.format(), model.type()), model);
  }
}
