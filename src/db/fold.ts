/** Text without regard to case and Unicode form, as search, sort and uniqueness compare it. */
export const fold = (text: string): string =>
  ascii.test(text) ? text.toLowerCase() : text.normalize('NFKC').toLowerCase().normalize('NFKC')

/** Such text has one form only. */
const ascii = /^[\x20-\x7e]*$/
