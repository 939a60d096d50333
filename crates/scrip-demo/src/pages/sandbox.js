// Sandbox cards by result. The tests pay with each card and compare the result: `result` is the final
// authentication status, or the HTTP status of the failed request; `hasChallenge` means the bank shows a page.

export const CARD_GROUPS = [
  {
    title: "Successful",
    cards: [
      { number: "5204247750001471", label: "Paid at once", result: "successful" },
      { number: "4000020000000000", label: "The bank asks for a code", result: "successful", hasChallenge: true },
      { number: "370000000000002", label: "American Express, with a code", result: "successful", hasChallenge: true },
      { number: "4000000000000341", label: "The bank asks in its app", result: "successful", hasChallenge: true },
      { number: "4005562231212123", label: "A code, without a check of the browser", result: "successful", hasChallenge: true },
      { number: "4111111111111111", label: "Attempted: the bank accepts liability", result: "attempted" },
    ],
  },
  {
    title: "Not successful",
    cards: [
      { number: "5405001111111116", label: "Rejected at once", result: "rejected" },
      { number: "4264281511112228", label: "Failed at once", result: "failed" },
      { number: "4055011111111111", label: "A code, then failed", result: "failed", hasChallenge: true },
      { number: "6011361000001115", label: "A code, then rejected", result: "rejected", hasChallenge: true },
    ],
  },
  {
    title: "No result",
    cards: [
      { number: "5405001111111165", label: "The bank cannot decide", result: "unavailable" },
      { number: "4264281500003339", label: "The card scheme responds with an error", result: 424 },
      { number: "4264281500001119", label: "No common version of 3-D Secure", result: 424 },
      { number: "4100000000000003", label: "The card does not support 3-D Secure", result: 424 },
    ],
  },
];

export const CARDS = CARD_GROUPS.flatMap((it) => it.cards);
