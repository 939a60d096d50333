/* A PKCS#11 library that forwards to LIBRARY. C_Decrypt waits while HANG_FILE exists. C_Login appends
   a byte to LOGIN_FILE. C_GetTokenInfo reports one more attempt while FINAL_TRY_FILE exists. */
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

typedef unsigned long (*decrypt_function)(unsigned long, void *, unsigned long, void *, unsigned long *);
typedef unsigned long (*login_function)(unsigned long, unsigned long, void *, unsigned long);

/* CK_FUNCTION_LIST of PKCS#11 2.40. */
struct function_list {
    unsigned char version[2];
    void *functions[68];
};

typedef unsigned long (*token_info_function)(unsigned long, void *);

enum { GET_FUNCTION_LIST = 3, GET_TOKEN_INFO = 6, LOGIN = 18, DECRYPT = 34 };

static struct function_list functions;
static decrypt_function forwarded_decrypt;
static login_function forwarded_login;
static token_info_function forwarded_token_info;

static unsigned long decrypt(unsigned long session, void *input, unsigned long input_length,
                             void *output, unsigned long *output_length) {
    while (access(HANG_FILE, F_OK) == 0)
        usleep(10000);
    return forwarded_decrypt(session, input, input_length, output, output_length);
}

static unsigned long login(unsigned long session, unsigned long user, void *pin,
                           unsigned long pin_length) {
    FILE *file = fopen(LOGIN_FILE, "a");
    fputc('x', file);
    fclose(file);
    return forwarded_login(session, user, pin, pin_length);
}

/* CK_TOKEN_INFO begins with 96 bytes of names; its flags follow. */
static unsigned long token_info(unsigned long slot, void *info) {
    unsigned long result = forwarded_token_info(slot, info);
    if (result == 0 && access(FINAL_TRY_FILE, F_OK) == 0)
        *(unsigned long *)((char *)info + 96) |= 0x20000; /* CKF_USER_PIN_FINAL_TRY */
    return result;
}

unsigned long C_GetFunctionList(struct function_list **list) {
    void *library = dlopen(LIBRARY, RTLD_NOW);
    unsigned long (*get)(struct function_list **) = dlsym(library, "C_GetFunctionList");
    struct function_list *forwarded;
    unsigned long result = get(&forwarded);
    if (result != 0)
        return result;
    functions = *forwarded;
    forwarded_decrypt = (decrypt_function)functions.functions[DECRYPT];
    functions.functions[DECRYPT] = (void *)decrypt;
    forwarded_login = (login_function)functions.functions[LOGIN];
    functions.functions[LOGIN] = (void *)login;
    forwarded_token_info = (token_info_function)functions.functions[GET_TOKEN_INFO];
    functions.functions[GET_TOKEN_INFO] = (void *)token_info;
    functions.functions[GET_FUNCTION_LIST] = (void *)C_GetFunctionList;
    *list = &functions;
    return 0;
}
