/** Text without regard to case and Unicode form, as search, sort and uniqueness compare it. */
export const fold = (text: string): string => text.normalize('NFKC').toLowerCase().normalize('NFKC')
