/** An invalid configuration; the message explains each error. */
export class ConfigError extends Error {
  readonly exitCode = 2
}

/** An invalid definition. Each line of the message states a location, an error and a fix. */
export class DefinitionError extends Error {
  override name = 'DefinitionError'
  readonly exitCode = 2

  constructor(violations: readonly string[]) {
    super(violations.join('\n'))
  }
}
